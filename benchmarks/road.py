"""Choices of the protocol `clean` on base classes: labels of cells, interpolated maps, refinement.

    python benchmarks/road.py --root PASCAL [--extractor 'default-fold{fold}'] [--shots 1] [--tasks 250]

For each fold, tasks of its base classes are drawn from the *training* images. Every row has the same tasks: labels by
the nearest pixel or by area, logits or probabilities interpolated to the image's own size, with or without the guided
filter.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from itertools import product

import numpy as np
import torch
from torch import Tensor

from repri import FeatureStore, build_method, get_protocol, load_extractor, open_dataset, sample_tasks
from repri.evaluation.runner import Runner, images_of, run_tasks
from repri.features import View
from repri.methods import Prediction
from repri.refine import get_refiner


class LogitRunner(Runner):
    """Interpolates logits instead of probabilities."""

    def mask(self, prediction: Prediction, view: View, image: np.ndarray | None) -> Tensor:
        probability = torch.sigmoid(view.restore(prediction.logits[None]))
        if image is not None:
            probability = get_refiner(self.refine)(probability, image)
        return probability[0] > 0.5


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--root", required=True)
    parser.add_argument("--extractor", default="default-fold{fold}")
    parser.add_argument("--shots", type=int, default=1)
    parser.add_argument("--tasks", type=int, default=250)
    options = parser.parse_args()
    data, clean = open_dataset("pascal", options.root, "train"), get_protocol("clean")
    scores: dict[tuple[str, str, str], list[float]] = {}
    for fold in range(len(data.folds)):
        extractor = load_extractor(options.extractor.replace("{fold}", str(fold)))
        base = [id for id in data.classes if id not in data.novel(fold)]
        tasks = sample_tasks(data, base, options.shots, options.tasks, 1, seed=7)
        store, method = FeatureStore(extractor), build_method("repri", extractor.default_preset)
        store.prepare(images_of(data, tasks))
        for labels, maps, refine in product(("nearest", "area"), ("logits", "probability"), ("none", "guided")):
            kind = LogitRunner if maps == "logits" else Runner
            runner = kind(data, method, store, replace(clean, cell_labels=labels), refine)
            scores.setdefault((labels, maps, refine), []).append(run_tasks(runner, tasks).scores().miou)
    print(f"{options.tasks} tasks of base classes a fold, {options.shots}-shot: mean mIoU, then folds 0 … 3")
    for (labels, maps, refine), values in scores.items():
        folds = " ".join(f"{value:5.1f}" for value in values)
        print(f"{labels:8} {maps:12} {refine:7} {np.mean(values):6.2f}   {folds}")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
