"""What wrong pixels are: background, other objects (of base or of tested classes), or missed parts of the object.

python benchmarks/errors.py --root data/pascal [--extractor 'default-fold{fold}'] [--shots 1] [--tasks 200]

PASCAL-5i validation images, protocol clean, the first tasks of each fold; in percent of the union of masks and truths
of a class, so that IoU and errors sum to 100.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from repri import FeatureStore, build_method, get_protocol, load_extractor, open_dataset, sample_tasks
from repri.evaluation.runner import Runner

COLUMNS = ("IoU", "missed", "base", "tested", "background")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--extractor", default="default-fold{fold}")
    parser.add_argument("--shots", type=int, default=1)
    parser.add_argument("--tasks", type=int, default=200)
    options = parser.parse_args()
    dataset, clean = open_dataset("pascal", options.root, "val"), get_protocol("clean")
    print(f"{'':14}" + "".join(f"{name:>11}" for name in COLUMNS))
    rows = []
    for fold in range(len(dataset.folds)):
        extractor = load_extractor(options.extractor.replace("{fold}", str(fold)))
        method = build_method("repri", extractor.default_preset)
        runner = Runner(dataset, method, FeatureStore(extractor), clean, clean.refine)
        pixels: dict[int, np.ndarray] = defaultdict(lambda: np.zeros(len(COLUMNS)))
        tasks = sample_tasks(dataset, dataset.novel(fold), options.shots, options.tasks, runs=1)
        for task in tasks.runs[0]:
            loaded = runner.load(task)
            mask = runner.mask(method.predict(loaded.episode), loaded.truth.view, loaded.image).numpy()
            pixels[task.class_id] += counted(mask, dataset.mask(task.query), task.class_id, dataset.novel(fold))
        for id, counts in sorted(pixels.items()):
            rows.append(100 * counts / counts.sum())
            print(f"{dataset.classes[id]:14}" + "".join(f"{value:11.1f}" for value in rows[-1]), flush=True)
    print(f"{'mean':14}" + "".join(f"{value:11.1f}" for value in np.mean(rows, 0)))


def counted(mask: np.ndarray, ids: np.ndarray, wanted: int, tested: Sequence[int]) -> np.ndarray:
    """Pixels of each column: hit, missed, and those of something else that were taken for the object."""
    truth, other = ids == wanted, np.isin(ids, [id for id in tested if id != wanted])
    base = ~truth & ~other & (ids != 0) & (ids != 255)
    parts = (mask & truth, ~mask & truth, mask & base, mask & other, mask & (ids == 0))
    return np.array([part.sum() for part in parts], float)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
