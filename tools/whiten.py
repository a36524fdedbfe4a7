"""Measure how ImageNet's features in the embedded model spread over PASCAL's images, and put it into the package.

No labels are used, but those that the heads know. The second part needs the heads, so run this after tools/embed.py.

python tools/whiten.py --root data/pascal
"""

from __future__ import annotations

import argparse
import random
import re
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import save_file

from repri import load_extractor
from repri.data.datasets.open import open_dataset
from repri.features.whitening import whitening_of
from repri.models.weights import embedded
from repri.runtime.download import file_sha256
from repri.runtime.files import atomic

CELLS = 60
"""Number of cells that are taken from each image."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--root", required=True)
    parser.add_argument("--images", type=int, default=2000)
    options = parser.parse_args()
    twin = load_extractor("twin")
    data = open_dataset("pascal", options.root, "train", "clean")
    chosen = random.Random(0).sample(data.samples, options.images)
    draw = torch.Generator().manual_seed(0)
    columns = []
    for sample in chosen:
        image = data.image(sample.id)
        view = twin.view((image.shape[0], image.shape[1]))
        cells = twin.extract(view.pixels(image)[None])[0].flatten(1)
        columns.append(cells[:, torch.randperm(cells.shape[1], generator=draw)[:CELLS]])
    cells = torch.cat(columns, 1)
    first, count = twin.widths[0], twin.widths[1]  # twin4
    whitening = whitening_of(F.normalize(cells[first : first + count], dim=0).T)._replace(first=first)
    tensors = {"mean": whitening.mean, "basis": whitening.basis}
    for name, part in embedded.DEFAULTS.items():
        head, _ = embedded.embedded_head(name)
        with torch.inference_mode():
            mapped = head(cells[None, :, :, None].half().float())[0, :, :, 0].half()
        through = whitening.seen_through(cells, mapped)
        tensors |= {f"{part}.matrix": through.matrix, f"{part}.offset": through.offset}
        wanted, got = whitening.project(cells), through.project(mapped)
        error = (wanted - got).square().sum() / (wanted - wanted.mean(1, keepdim=True)).square().sum()
        print(f"{name}: {100 * float(1 - error):.2f} % of the variance")
    with atomic(embedded.WHITENING) as temporary:
        save_file({name: tensor.half().contiguous() for name, tensor in tensors.items()}, temporary)
    digest = file_sha256(embedded.WHITENING)
    source = Path(embedded.__file__)
    source.write_text(re.sub(r'WHITENING_SHA256 = ".*', f'WHITENING_SHA256 = "{digest}"', source.read_text()))
    print(f"{embedded.WHITENING}: {embedded.WHITENING.stat().st_size / 1e3:.0f} kB, sha256 {digest}")


if __name__ == "__main__":
    main()
