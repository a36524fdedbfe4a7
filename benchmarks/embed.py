"""Put a trained compact network into the package, in half precision.

python benchmarks/embed.py runs/embedded/model.safetensors [--size 417]
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import torch

from repri.download import file_sha256
from repri.models import embedded
from repri.models.checkpoints import read_checkpoint, save_checkpoint


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--size", type=int, help="long side at which pictures shall be looked at")
    options = parser.parse_args()
    checkpoint = read_checkpoint(options.file)
    unused = ("classifier.", "num_batches_tracked")
    state = {
        key: value.half() if value.dtype == torch.float32 else value
        for key, value in checkpoint.state.items()
        if not key.startswith(unused[0]) and not key.endswith(unused[1])
    }
    config = checkpoint.config | {"classes": None}
    if options.size:
        config["size"] = options.size
    save_checkpoint(embedded.EMBEDDED, state, config)
    digest = file_sha256(embedded.EMBEDDED)
    source = Path(embedded.__file__)
    source.write_text(re.sub(r'(?m)^SHA256 = ".*', f'SHA256 = "{digest}"', source.read_text()))
    values = sum(value.numel() for value in state.values())
    megabytes = embedded.EMBEDDED.stat().st_size / 1e6
    print(f"{embedded.EMBEDDED}: {values / 1e6:.2f} million values, {megabytes:.1f} MB, sha256 {digest}")


if __name__ == "__main__":
    main()
