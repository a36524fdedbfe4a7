"""What false pixels are: background, other objects (of base classes or of tested ones), or parts of the object missed.

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

from repri.data.datasets.open import open_dataset
from repri.data.io.masks import IGNORE
from repri.data.tasks.tasks import sample_tasks
from repri.features.store import FeatureStore
from repri.features.view import resize_mask, restore, step_of
from repri.methods import Episode, build_method
from repri.models import load_extractor

COLUMNS = ("IoU", "missed", "base", "tested", "background")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--extractor", default="default-fold{fold}")
    parser.add_argument("--shots", type=int, default=1)
    parser.add_argument("--tasks", type=int, default=200)
    options = parser.parse_args()
    dataset = open_dataset("pascal", options.root, "val", "clean")
    print(f"{'':14}" + "".join(f"{name:>11}" for name in COLUMNS))
    found = []
    for fold in range(len(dataset.folds)):
        extractor = load_extractor(options.extractor.replace("{fold}", str(fold)))
        background = getattr(extractor, "background", None)
        method = build_method("repri", "clean", {} if background is None else {"form": "discriminant"})
        store = FeatureStore(extractor, "clean")
        pixels: dict[int, np.ndarray] = defaultdict(lambda: np.zeros(len(COLUMNS)))
        tasks = sample_tasks(dataset, dataset.novel(fold), options.shots, options.tasks, runs=1)
        for task in tasks.runs[0]:
            features = {id: store.get(dataset[id].image) for id in (*task.support, task.query)}
            ids = {id: dataset.mask(id) for id in features}
            where = {id: store.geometry(mask.shape) for id, mask in ids.items()}
            shots = [resize_mask(binary(ids[id], task.class_id), where[id]) for id in task.support]
            query, here = features[task.query], where[task.query]
            episode = Episode([features[id] for id in task.support], shots, query, here.valid(), background=background)
            step = step_of(extractor.strided, (query.shape[-2], query.shape[-1]), here.full, extractor.stride)
            mask = (restore(method.predict(episode).logits, here, step) > 0).numpy()
            pixels[task.class_id] += shares(mask, ids[task.query], task.class_id, dataset.novel(fold))
        for id, counted in sorted(pixels.items()):
            found.append(100 * counted / counted.sum())
            print(f"{dataset.classes[id]:14}" + "".join(f"{value:11.1f}" for value in found[-1]), flush=True)
    print(f"{'mean':14}" + "".join(f"{value:11.1f}" for value in np.mean(found, 0)))


def binary(ids: np.ndarray, wanted: int) -> np.ndarray:
    """0, 1 and 255."""
    return np.where(ids == IGNORE, IGNORE, ids == wanted).astype(np.uint8)


def shares(mask: np.ndarray, ids: np.ndarray, wanted: int, tested: Sequence[int]) -> np.ndarray:
    """Pixels of each column: found, missed, and what was taken for the object."""
    truth, other = ids == wanted, np.isin(ids, [id for id in tested if id != wanted])
    base = ~truth & ~other & (ids != 0) & (ids != IGNORE)
    parts = (mask & truth, ~mask & truth, mask & base, mask & other, mask & (ids == 0))
    return np.array([part.sum() for part in parts], float)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
