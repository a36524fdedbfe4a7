"""Measure how ImageNet's features in the embedded model spread over PASCAL's images, and put it into the package.

No labels are used.

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
    extractor = load_extractor("twin", layers=["twin4"])
    data = open_dataset("pascal", options.root, "train", "clean")
    chosen = random.Random(0).sample(data.samples, options.images)
    draw = torch.Generator().manual_seed(0)
    rows = []
    for sample in chosen:
        image = data.image(sample.id)
        view = extractor.view((image.shape[0], image.shape[1]))
        cells = F.normalize(extractor.extract(view.pixels(image)[None])[0].flatten(1), dim=0).T
        rows.append(cells[torch.randperm(len(cells), generator=draw)[:CELLS]])
    whitening = whitening_of(torch.cat(rows))
    with atomic(embedded.WHITENING) as temporary:
        save_file({"mean": whitening.mean.half(), "basis": whitening.basis.half().contiguous()}, temporary)
    digest = file_sha256(embedded.WHITENING)
    source = Path(embedded.__file__)
    source.write_text(re.sub(r'WHITENING_SHA256 = ".*', f'WHITENING_SHA256 = "{digest}"', source.read_text()))
    print(f"{embedded.WHITENING}: {embedded.WHITENING.stat().st_size / 1e3:.0f} kB, sha256 {digest}")


if __name__ == "__main__":
    main()
