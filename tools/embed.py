"""Put the trained network or heads into the package, in half precision.

python tools/embed.py network runs/embedded/model.safetensors --size 417
python tools/embed.py twin EFFICIENTNET_LITE0    # ImageNet weights, as `repri weights get efficientnet_lite0` says
python tools/embed.py heads 'runs/pascal-embedded-discriminant-{part}/model.safetensors'    # fold0 … fold3, all
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path

import torch
from torch import Tensor

from repri.models import load_extractor
from repri.models.heads.discriminant import Discriminant
from repri.models.heads.files import load_head
from repri.models.networks.mobile import CompactNet
from repri.models.networks.twin import TwinNet
from repri.models.weights import embedded
from repri.models.weights.checkpoints import load_checkpoint, read_checkpoint, save_checkpoint
from repri.runtime.download import file_sha256
from repri.runtime.tensors import write_tensors


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", choices=["network", "twin", "heads"])
    parser.add_argument("file")
    parser.add_argument("--size", type=int, help="long side at which images are looked at")
    options = parser.parse_args()
    if options.what == "network":
        embed_network(Path(options.file), options.size)
        publish(embedded.EMBEDDED, "SHA256")
    elif options.what == "twin":
        embed_twin(Path(options.file))
        publish(embedded.TWIN, "TWIN_SHA256")
    else:
        embed_heads(options.file)
        publish(embedded.HEADS, "HEADS_SHA256")


def embed_network(file: Path, size: int | None) -> None:
    checkpoint = read_checkpoint(file)
    unused = ("classifier.", "num_batches_tracked")
    state = {
        key: value.half() if value.dtype == torch.float32 else value
        for key, value in checkpoint.state.items()
        if not key.startswith(unused[0]) and not key.endswith(unused[1])
    }
    config = checkpoint.config | {"classes": None}
    if size:
        config["size"] = size
    save_checkpoint(embedded.EMBEDDED, state, config)
    print(f"{sum(value.numel() for value in state.values()) / 1e6:.2f} million values")


def embed_twin(file: Path) -> None:
    compact = load_checkpoint(read_checkpoint(embedded.EMBEDDED))
    assert isinstance(compact, CompactNet)
    keys = TwinNet(compact).twin.state_dict()
    given = {key.removeprefix("backbone."): value for key, value in read_checkpoint(file).state.items()}
    state = {key: given[key].half() if given[key].is_floating_point() else given[key] for key in keys if key in given}
    write_tensors(embedded.TWIN, state, {"about": "layer3 and layer4 of ImageNet's EfficientNet-Lite0"})
    print(f"{sum(value.numel() for value in state.values()) / 1e6:.2f} million values")


def embed_heads(pattern: str) -> None:
    tensors: dict[str, Tensor] = {}
    about: dict[str, str] = {}
    network = load_extractor("twin")
    for part in embedded.DEFAULTS.values():
        head, base = load_head(Path(pattern.replace("{part}", part)))
        if not isinstance(head, Discriminant) or base["identity"] != network.identity:
            raise SystemExit(f"{part} is not a discriminant, or not on the network that the package has now")
        tensors |= {f"{part}.{key}": value.half() for key, value in head.state_dict().items()}
        about |= {part: json.dumps(base["seen"]), "parts": json.dumps(head.parts)}
        print(f"{part}: {', '.join(base['seen'])}")
    write_tensors(embedded.HEADS, tensors, about)


def publish(path: Path, name: str) -> None:
    """Let the package expect the file as it is now."""
    digest, source = file_sha256(path), Path(embedded.__file__)
    source.write_text(re.sub(rf'(?m)^{name} = ".*', f'{name} = "{digest}"', source.read_text()))
    print(f"{path}: {path.stat().st_size / 1e6:.1f} MB, sha256 {digest}")


if __name__ == "__main__":
    main()
