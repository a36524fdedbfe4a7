"""Which settings of an inference are best on base classes, for each fold: how the defaults of `clean` were chosen.

    python benchmarks/choose.py --root PASCAL --extractor NAME [--weights FILE] [--layers …] [--tasks 100] [--shots 1,5]
        [--grid classifier|scale|bias] [--images 15]

`--grid scale` searches the temperature and the background for features of another kind than those for which the
defaults were chosen; `--grid bias` searches the start of the bias of a discriminant's classifier.

Tasks are drawn from the *training* images; `--images` limits the number of images of each class. A fold may only
use the classes of the other folds: the score of a setting for fold f is its mean mIoU over the tasks of all folds
but f. `{fold}` in the extractor's name is the fold whose tasks are drawn, and whose labels it must not know. The choice
for f is the best mean over shots; the last lines also print the choice for each number of shots, and the scores of all
settings in their order.
"""

from __future__ import annotations

import argparse
import itertools
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from repri.data.datasets.index import class_index, class_lists
from repri.data.tasks.tasks import sample_tasks
from repri.evaluation import EvaluationSettings, Plan, evaluate_folds, plan_evaluation
from repri.evaluation.settings import DataSettings, TaskSettings
from repri.features.extractor import FeatureExtractor
from repri.methods.settings import MethodSettings
from repri.models import load_extractor
from repri.models.settings import ExtractorSettings

BACKGROUND: dict[str, Any] = {"background": "both", "bias_over": "none"}
ORIGINAL: dict[str, Any] = {"preset": "original"}


def classifiers() -> list[dict[str, Any]]:
    """The authors' classifier with other step sizes and temperatures; then with a background, also re-weighted."""
    steps = itertools.product((0.005, 0.025, 0.1), (10, 20))
    settings = [ORIGINAL | {"lr": lr, "temperature": tau} for lr, tau in steps]
    plain = ORIGINAL | BACKGROUND
    settings += [ORIGINAL | {"background": "support"}, plain | {"background": "support"}, plain, plain | {"steps": 0}]
    weights = itertools.product((1.0, 2.5, 5.0, 10.0), (0.0025, 0.005, 0.01))
    settings += [plain | {"transduction": weight, "lr": lr} for weight, lr in weights]
    best = plain | {"transduction": 5.0, "lr": 0.005}
    others = ({"steps": 20}, {"steps": 100}, {"temperature": 10}, {"temperature": 30}, {"t_pi": None})
    return settings + [best | other for other in (*others, {"t_pi": (10, 20, 30, 40)}, {"kl_increase": 5.0})]


def scales() -> list[dict[str, Any]]:
    """``clean`` with other temperatures and backgrounds."""
    pairs = itertools.product((20, 40, 60, 100), ("both", "support"))
    return [{"temperature": tau, "background": background} for tau, background in pairs]


def biases() -> list[dict[str, Any]]:
    """A discriminant's classifier from other biases on. K shots start from start_bias + shots_bias·(1 − 1/K):
    the best one of each number of shots gives both."""
    preset = {"preset": "discriminant", "shots_bias": 0.0}
    return [preset | {"start_bias": bias} for bias in (0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0)]


GRIDS = {"classifier": classifiers, "scale": scales, "bias": biases}


def thinned(planned: Plan, images: int) -> Plan:
    """The same number of tasks, drawn from ``images`` images of each class, evenly over its list."""
    whole, of = planned.dataset, planned.settings.tasks
    lists = class_lists(whole, class_index(whole)).values()
    kept = {ids[i * len(ids) // images] for ids in lists for i in range(min(images, len(ids)))}
    dataset = replace(whole, samples=tuple(sample for sample in whole.samples if sample.id in kept))
    tasks = {
        (shots, fold): sample_tasks(dataset, dataset.novel(fold), shots, of.tasks, of.runs, of.seed)
        for shots, fold in planned.tasks
    }
    return replace(planned, dataset=dataset, tasks=tasks)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--root", required=True)
    parser.add_argument("--extractor", required=True)
    parser.add_argument("--weights")
    parser.add_argument(
        "--layers", type=lambda text: tuple(int(x) if x.lstrip("-").isdigit() else x for x in text.split(","))
    )
    parser.add_argument("--grid", choices=GRIDS, default="classifier")
    parser.add_argument("--size", type=int)
    parser.add_argument("--images", type=int)
    parser.add_argument("--tasks", type=int, default=100)
    parser.add_argument("--shots", type=lambda text: tuple(map(int, text.split(","))), default=(1, 5))
    options = parser.parse_args()
    common = EvaluationSettings(
        data=DataSettings(root=options.root, split="train"),
        tasks=TaskSettings(shots=options.shots, runs=1, tasks=options.tasks, seed=1),
        extractor=ExtractorSettings(name=options.extractor, size=options.size),
    )

    @cache
    def load(name: str) -> FeatureExtractor:
        return load_extractor(name, options.weights, layers=options.layers)

    head = "".join(f"{f'{k}-shot':>7}" for k in options.shots)
    print(f"{options.tasks} training tasks a fold; mIoU {head} | base classes of fold 0 … 3, mean over shots")
    scores = {}  # setting → [shots, folds] of the base classes
    for settings in GRIDS[options.grid]():
        changes = dict(settings)
        method = MethodSettings(preset=changes.pop("preset", None), settings=changes)
        planned = plan_evaluation(replace(common, method=method))
        planned = thinned(planned, options.images) if options.images else planned
        results = evaluate_folds(planned, lambda fold: load(options.extractor.replace("{fold}", str(fold))))
        folds = np.array([[fold["miou"] for fold in result["per_fold"].values()] for result in results.values()])
        base = np.stack([np.delete(folds, fold, 1).mean(1) for fold in range(folds.shape[1])], 1)
        name = " ".join(f"{key}={value}" for key, value in settings.items())
        scores[name] = base
        means = "".join(f"{x:6.1f}" for x in base.mean(0))
        print(f"{''.join(f'{x:7.1f}' for x in folds.mean(1))} | {means}  {name}", flush=True)
    for fold in range(folds.shape[1]):
        print(f"best for fold {fold}: {max(scores, key=lambda name: scores[name][:, fold].mean())}")
        for i, shots in enumerate(options.shots):
            every = {name: score[i, fold] for name, score in scores.items()}
            listed = " ".join(f"{score:.1f}" for score in every.values())
            print(f"  at {shots}-shot: {max(every, key=every.__getitem__)} ({listed})")


if __name__ == "__main__":
    main()
