"""What the support tells about the object's proportion in the query, on base classes (K ≥ 2).

    python benchmarks/proportion.py --root PASCAL --extractor NAME [--tasks 25] [--shots 5]

Each shot in turn is treated as a query that the others segment. The error of the proportions that are estimated there
corrects the proportion that is estimated for the real query, wholly or half (in logarithms), and this replaces π.
Beside it: π as it is estimated, the geometric mean of the shots' proportions, and the true one. Tasks are drawn from
the *training* images.
"""

from __future__ import annotations

import argparse
import math
from typing import Any

import numpy as np

from repri import FeatureStore, build_method, get_protocol, infer, load_extractor
from repri.evaluation import EvaluationSettings, plan_evaluation
from repri.evaluation.metrics import running_miou
from repri.evaluation.runner import Runner, images_of, run_tasks
from repri.evaluation.settings import DataSettings, TaskSettings
from repri.features import proportion_of
from repri.inference import InferenceConfig
from repri.methods import Episode, Method, Prediction

EDGE = 1e-3


class FromSupport(Method):
    """RePRI with a π that the support corrects by ``power`` of its error, or that the shots' proportions give."""

    name = "from-support"

    def __init__(self, config: InferenceConfig, power: float | None):
        self.config, self.power = config, power

    def predict(self, episode: Episode) -> Prediction:
        support, labels = episode.support.stacked
        valid = None if episode.query_valid is None else episode.query_valid[None]
        start, first = self.config.replace(steps=0), None
        if self.power is None:
            pi = math.exp(np.mean([math.log(max(proportion_of(label), EDGE)) for label in labels]))
        else:
            wrong = []
            for k in range(len(support)):
                others = [i for i in range(len(support)) if i != k]
                estimated = infer(support[others][None], labels[others][None], support[k][None], start)
                wrong.append(math.log(max(proportion_of(labels[k]), EDGE) / float(estimated.proportion[0])))
            first = float(infer(support[None], labels[None], episode.query[None], start, valid).proportion[0])
            pi = first * math.exp(self.power * float(np.mean(wrong)))
        pi = min(max(pi, EDGE), 1 - EDGE)
        out = infer(support[None], labels[None], episode.query[None], self.config, valid, pi)
        return Prediction(out.query_logits[0], pi, first)

    def settings(self) -> dict[str, Any]:
        return {"power": self.power}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--root", required=True)
    parser.add_argument("--extractor", required=True)
    parser.add_argument("--tasks", type=int, default=25)
    parser.add_argument("--shots", type=int, default=5)
    options = parser.parse_args()
    if options.shots < 2:
        parser.error("--shots must be at least 2, so that there are others to segment each shot")
    tasks = TaskSettings(shots=(options.shots,), runs=1, tasks=options.tasks, seed=1)
    plan = plan_evaluation(EvaluationSettings(data=DataSettings(root=options.root, split="train"), tasks=tasks))
    store, clean = FeatureStore(load_extractor(options.extractor)), get_protocol("clean")
    for drawn in plan.tasks.values():
        store.prepare(images_of(plan.dataset, drawn))
    config = InferenceConfig.preset("clean")
    methods = {
        "π estimated": build_method("repri"),
        "corrected by the support": FromSupport(config, 1.0),
        "half corrected": FromSupport(config, 0.5),
        "not corrected, kept": FromSupport(config, 0.0),
        "mean proportion of the shots": FromSupport(config, None),
        "π true": build_method("repri-oracle"),
    }
    print(f"{options.tasks} training tasks a fold, {options.shots}-shot{'':8} mIoU   δ")
    for name, method in methods.items():
        runner = Runner(plan.dataset, method, store, clean, clean.refine)
        outcomes = [run_tasks(runner, drawn) for drawn in plan.tasks.values()]
        score = np.mean([running_miou(outcome.counts) for outcome in outcomes])
        error = np.median(np.abs(np.concatenate([outcome.errors[:, 1] for outcome in outcomes])))
        print(f"{name:32} {score:6.1f} {error:6.2f}", flush=True)


if __name__ == "__main__":
    main()
