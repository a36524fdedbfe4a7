"""What the support tells of the object's size in the query, on base classes (K ≥ 2).

    python benchmarks/proportion.py --root PASCAL --extractor NAME [--tasks 25] [--shots 5]

Each shot in turn is taken for a query that the others segment. By how much the sizes that are estimated there are wrong
corrects the size that is estimated for the real query, wholly or half (in logarithms), and that takes the place of π.
Beside it: π as it is estimated, the geometric mean of the shots' sizes, and the true one. Tasks are drawn from the
*training* images.
"""

from __future__ import annotations

import argparse
import math
from typing import Any

import numpy as np
import torch

from repri.evaluation.evaluate import EvaluationConfig, plan
from repri.evaluation.metrics import running_miou
from repri.evaluation.runner import images_of, run_tasks
from repri.features.store import FeatureStore
from repri.inference import InferenceConfig, infer
from repri.inference.problem import stack_shots
from repri.methods import Episode, Prediction, build_method
from repri.models import load_extractor

EDGE = 1e-3


class FromSupport:
    """RePRI with a π that the support corrects by ``power`` of what it was wrong by, or that the shots' sizes give."""

    oracle = False

    def __init__(self, config: InferenceConfig, power: float | None):
        self.name, self.config, self.power = "from-support", config, power

    def predict(self, episode: Episode) -> Prediction:
        support, labels = stack_shots(episode.support, episode.masks)
        valid = None if episode.query_valid is None else episode.query_valid[None]
        start, first = self.config.replace(steps=0), None
        if self.power is None:
            pi = math.exp(np.mean([math.log(_size(mask)) for mask in labels]))
        else:
            wrong = []
            for k in range(len(support)):
                others = [i for i in range(len(support)) if i != k]
                estimated = infer(support[others][None], labels[others][None], support[k][None], start)
                wrong.append(math.log(_size(labels[k]) / float(estimated.proportion[0])))
            first = float(infer(support[None], labels[None], episode.query[None], start, valid).proportion[0])
            pi = first * math.exp(self.power * float(np.mean(wrong)))
        pi = min(max(pi, EDGE), 1 - EDGE)
        out = infer(support[None], labels[None], episode.query[None], self.config, valid, pi)
        return Prediction(torch.logit(out.probability[0].double(), eps=1e-9).float(), first, pi)

    def settings(self) -> dict[str, Any]:
        return {"power": self.power}


def _size(mask: torch.Tensor) -> float:
    """Share of the object in a shot, above 0."""
    known = mask != 255
    return max(float((mask[known] > 0).float().mean()), EDGE)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--root", required=True)
    parser.add_argument("--extractor", required=True)
    parser.add_argument("--tasks", type=int, default=25)
    parser.add_argument("--shots", type=int, default=5)
    options = parser.parse_args()
    if options.shots < 2:
        parser.error("--shots: there must be another one to take in turn")
    planned = plan(
        EvaluationConfig(root=options.root, split="train", shots=(options.shots,), runs=1, tasks=options.tasks, seed=1)
    )
    store = FeatureStore(load_extractor(options.extractor))
    for tasks in planned.tasks.values():
        store.prepare(images_of(planned.dataset, tasks))
    config = InferenceConfig.preset("clean")
    methods = {
        "π estimated": build_method("repri"),
        "corrected by the support": FromSupport(config, 1.0),
        "half corrected": FromSupport(config, 0.5),
        "not corrected, kept": FromSupport(config, 0.0),
        "mean size of the shots": FromSupport(config, None),
        "π true": build_method("repri-oracle"),
    }
    print(f"{options.tasks} training tasks a fold, {options.shots}-shot{'':8} mIoU   δ")
    for name, method in methods.items():
        found = [run_tasks(planned.dataset, tasks, method, store) for tasks in planned.tasks.values()]
        score = np.mean([running_miou(outcome.counts) for outcome in found])
        error = np.median(np.abs(np.concatenate([outcome.errors[:, 1] for outcome in found])))
        print(f"{name:32} {score:6.1f} {error:6.2f}", flush=True)


if __name__ == "__main__":
    main()
