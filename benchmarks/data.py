"""Images per second of the loader beside plain Pillow decoding of the same files, in one run.

    python benchmarks/data.py [--root FOLDER] [--images 300] [--repeats 5]

The loader reads, turns and checks an image and its mask and resizes both; plain Pillow only decodes the two
files. Without ``--root`` (a PASCAL folder) 500×375 images are made first.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from timing import medians

from repri import load_extractor
from repri.data.datasets.dataset import Dataset
from repri.data.datasets.folder import open_folder
from repri.data.datasets.open import open_dataset
from repri.data.io.masks import write_mask
from repri.features.view import Resize
from repri.runtime.parallel import parallel

RULES: tuple[Resize, ...] = ("letterbox", "square", "aspect")
SIZE = 417


def make_images(root: Path, count: int) -> None:
    """Smooth noise, which compresses about as photographs do, with one ellipse as the object."""
    rng = np.random.default_rng(0)
    (root / "images").mkdir(parents=True)
    y, x = np.mgrid[:375, :500]
    for i in range(count):
        coarse = Image.fromarray(rng.integers(0, 255, (48, 64, 3), np.uint8)).resize(
            (500, 375), Image.Resampling.BICUBIC
        )
        grain = rng.normal(0, 6, (375, 500, 3))
        pixels = (np.asarray(coarse) + grain).clip(0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(root / "images" / f"{i:04}.jpg", quality=90)
        write_mask(
            (((x - 250) / 150) ** 2 + ((y - 180) / 110) ** 2 < 1).astype(np.uint8), root / "masks" / f"{i:04}.png"
        )


def decode(paths: tuple[Path, Path]) -> None:
    for path in paths:
        with Image.open(path) as image:
            image.load()


def measure(dataset: Dataset, ids: list[str], repeats: int) -> None:
    extractor = load_extractor("filters")

    def load(id: str, rule: Resize) -> None:
        image, mask = dataset.pair(id)
        view = extractor.view((image.shape[0], image.shape[1]), rule, SIZE)
        view.pixels(image)
        view.mask(mask)

    files = [(dataset[id].image, dataset[id].mask or dataset[id].image) for id in ids]
    methods = {}
    for workers in (1, 2):
        methods["Pillow, decoding only", workers] = lambda w=workers: list(parallel(decode, files, w))
        for rule in RULES:
            methods[f"loader, {rule}", workers] = lambda w=workers, r=rule: list(
                parallel(lambda id: load(id, r), ids, w)
            )
    seconds = medians({f"{name}|{workers}": run for (name, workers), run in methods.items()}, repeats)
    print(f"{len(ids)} images        images/s, fraction of Pillow's   with 1 worker      with 2 workers")
    for name in dict.fromkeys(name for name, _ in methods):
        cells = []
        for workers in (1, 2):
            time = seconds[f"{name}|{workers}"]
            fraction = seconds[f"Pillow, decoding only|{workers}"] / time
            cells.append(f"{len(ids) / time:6.0f}  {fraction:4.2f}")
        print(f"{name:38} {cells[0]:>18} {cells[1]:>19}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path)
    parser.add_argument("--images", type=int, default=300)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)  # the workers are the threads
    with tempfile.TemporaryDirectory() as folder:
        if options.root is None:
            make_images(Path(folder) / "made", options.images)
            dataset = open_folder(Path(folder) / "made")
        else:
            dataset = open_dataset("pascal", options.root)
        measure(dataset, [sample.id for sample in dataset.samples][: options.images], options.repeats)


if __name__ == "__main__":
    main()
