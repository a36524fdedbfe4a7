"""The whole protocol: folds, shots, runs of tasks, one result for each number of shots."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import torch

from repri.data.datasets.dataset import Dataset
from repri.data.datasets.folds import Protocol, coco_to_pascal_novel
from repri.data.datasets.index import MIN_PIXELS, class_index
from repri.data.datasets.open import open_dataset
from repri.data.io.classes import PASCAL, among
from repri.data.tasks.tasks import Sampling, TaskList, load_tasks, sample_tasks
from repri.features.store import Extractor, FeatureStore
from repri.methods import Method, build_method
from repri.protocols import get_protocol
from repri.runtime.distributed import World
from repri.runtime.memory import peak_memory

from .metrics import Counts
from .results import make_result
from .runner import Outcome, images_of, run_tasks

__all__ = ["EvaluationConfig", "evaluate", "plan"]

PRECISION = {"half": torch.float16, "single": torch.float32}


@dataclass(frozen=True)
class EvaluationConfig:
    """Everything that decides a result."""

    data: str = "pascal"
    """Data set whose folds are meant: pascal, coco or a YAML file."""
    root: str | None = None
    test_data: str | None = None
    """Data set to test on, if another one (pascal, for a model of coco)."""
    test_root: str | None = None
    split: str = "val"
    folds: tuple[int, ...] | None = None
    """None: all."""
    shots: tuple[int, ...] = (1,)
    method: str = "repri"
    protocol: Protocol = "clean"
    extractor: str | None = None
    """None: the form of the embedded model that has not seen labels of what is tested."""
    weights: str | None = None
    """A file or a known name; ``{fold}`` in it is replaced by the fold."""
    layers: tuple[str | int, ...] | None = None
    combine: str = "concat"
    shifts: int = 1
    """Finer features of so many shifted copies of each picture along each side."""
    size: int | None = None
    """Long side in pixels; None: what the extractor wants."""
    runs: int = 5
    tasks: int = 1000
    seed: int = 0
    sampling: Sampling = "queries"
    min_pixels: int = MIN_PIXELS
    """Of a class, for an image to count for it; another number is another protocol."""
    task_list: str | None = None
    """A file of `repri data tasks` to take instead of drawing: one fold, its own shots and runs."""
    precision: Literal["half", "single"] = "half"
    """Of stored features."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Of the method: steps, lr, temperature, delta, …"""


@dataclass(frozen=True)
class Plan:
    """What will be done; made, and every mistake found, before any long work."""

    config: EvaluationConfig
    dataset: Dataset
    method: Method
    tasks: dict[tuple[int, int], TaskList]
    """(shots, fold) → its tasks."""

    @property
    def folds(self) -> list[int]:
        return sorted({fold for _, fold in self.tasks})

    def classes(self, fold: int) -> list[str]:
        """That it tests."""
        return next(list(tasks.classes.values()) for (_, of), tasks in self.tasks.items() if of == fold)


def embedded_for(config: EvaluationConfig, classes: Iterable[str], shifted: bool) -> str:
    """Which form of the embedded model has not seen labels of the tested classes."""
    if config.weights is not None:
        raise ValueError("weights: say of which extractor")
    if config.layers is None and config.data == "pascal" and not shifted:
        return "default-fold{fold}"
    return "distilled" if among(classes, PASCAL) or config.layers is not None else "default"


def plan(config: EvaluationConfig, progress: Callable[[int, int], None] | None = None) -> Plan:
    """Open the data, build the method and draw the tasks."""
    method = build_method(config.method, config.protocol, config.settings)
    shifted = config.test_data not in (None, config.data)
    if shifted and (config.data, config.test_data) != ("coco", "pascal"):
        raise ValueError(f"the shift from {config.data} to {config.test_data} is not known: only coco to pascal is")
    if config.test_root is not None and not shifted:
        raise ValueError(
            "test_root: is of another data set to test on, and none is given; the folder of --data is root"
        )
    if config.min_pixels < 1:
        raise ValueError(f"min_pixels must be at least 1, got {config.min_pixels}")
    name, root = (config.test_data, config.test_root or config.root) if shifted else (config.data, config.root)
    dataset = open_dataset(str(name), root, config.split, config.protocol)
    folds = range(4 if shifted else len(dataset.folds)) if config.folds is None else config.folds
    swapped = get_protocol(config.protocol).swaps_cat_and_car
    novel = {f: coco_to_pascal_novel(f, swapped) if shifted else dataset.novel(f) for f in folds}
    if config.extractor is None:
        tested = (dataset.classes[id] for ids in novel.values() for id in ids)
        config = replace(config, extractor=embedded_for(config, tested, shifted))
    if config.task_list is not None:
        return _plan_of_list(config, dataset, method, novel)
    index = class_index(dataset, config.min_pixels, progress=progress)
    tasks = {}
    for fold in folds:
        for shots in config.shots:
            tasks[shots, fold] = sample_tasks(
                *(dataset, novel[fold], shots, config.tasks, config.runs),
                *(config.seed, config.sampling, index),
            )
    return Plan(config, dataset, method, tasks)


def _plan_of_list(
    config: EvaluationConfig, dataset: Dataset, method: Method, novel: Mapping[int, Sequence[int]]
) -> Plan:
    """The tasks of a file, which says how many shots, runs and tasks there are."""
    if len(novel) != 1:
        raise ValueError(f"the task list {config.task_list} is of one fold: say which, with --fold")
    tasks = load_tasks(Path(str(config.task_list)), dataset)
    ((fold, classes),) = novel.items()
    for id, name in tasks.classes.items():
        if id not in classes:
            raise ValueError(f"the task list {config.task_list} tests {name!r}, which fold {fold} does not hold out")
    sizes = {"shots": (tasks.shots,), "runs": len(tasks.runs), "tasks": len(tasks.runs[0])}
    config = replace(config, **sizes, seed=tasks.seed, sampling=tasks.sampling)
    return Plan(config, dataset, method, {(tasks.shots, fold): tasks})


def _form(config: EvaluationConfig, extractors: Mapping[int, Extractor]) -> str:
    """Whose settings the method takes: the protocol's or those that are asked for; ``clean`` has a form of its own for
    extractors that know backgrounds."""
    known = {fold: getattr(extractor, "background", None) is not None for fold, extractor in extractors.items()}
    form = config.settings.get("form", config.protocol)
    if form == "clean" and "form" not in config.settings and config.method != "prototype":
        if len(set(known.values())) > 1:
            raise ValueError(
                f"only the extractors of folds {', '.join(str(f) for f in known if known[f])} know backgrounds: say "
                "which settings all shall have, with --set form=clean or form=discriminant"
            )
        form = "discriminant" if all(known.values()) else form
    if form == "discriminant" and not all(known.values()):
        name = next(extractor.name for fold, extractor in extractors.items() if not known[fold])
        raise ValueError(f"{name} knows nothing of backgrounds: form=discriminant is for extractors with such a head")
    return form


Report = Callable[[str, int, int, Counts | None], None]
"""Called with what is being done, how far, of how much, and the counts so far of a run of tasks."""


def evaluate(
    planned: Plan,
    extractor_for: Callable[[int], Extractor],
    world: World | None = None,
    report: Report | None = None,
    store: Path | None = None,
) -> dict[int, dict[str, Any]]:
    """Shots → the content of its result file. ``extractor_for``: fold → extractor; ``store``: another place than
    the cache for features that nobody will want again."""
    world = world or World()
    config, dataset = planned.config, planned.dataset
    extractors = {fold: extractor_for(fold) for fold in planned.folds}
    form = _form(config, extractors)
    method = planned.method
    if form != config.settings.get("form", config.protocol):
        method = build_method(config.method, config.protocol, config.settings | {"form": form})
    seen = {}
    for fold, extractor in extractors.items():
        seen[fold] = among(planned.classes(fold), getattr(extractor, "seen", ()))
        if seen[fold] and world.first:
            warnings.warn(
                f"fold {fold} tests {', '.join(seen[fold])}, which are not new to {extractor.name}: it was "
                "trained with their labels; take an extractor that was not, such as distilled",
                stacklevel=2,
            )
    outcomes: dict[int, dict[int, Outcome]] = {shots: {} for shots in config.shots}
    timing: dict[int, float] = dict.fromkeys(config.shots, 0.0)
    images = {
        fold: sorted({image for shots in config.shots for image in images_of(dataset, planned.tasks[shots, fold])})
        for fold in planned.folds
    }
    most = max(map(len, images.values()))
    extraction, stores = 0.0, {}
    for fold, extractor in extractors.items():
        kept = FeatureStore(extractor, config.protocol, config.size, store, precision=PRECISION[config.precision])
        stores[fold] = {"name": extractor.name, "fingerprint": extractor.fingerprint[:16], "size": kept.size}
        start = time.perf_counter()
        tell = (lambda a, b, fold=fold: report(f"features, fold {fold}", a, b, None)) if report else None
        kept.prepare(images[fold], tell, share=world.share, most=most)
        world.wait()
        extraction += time.perf_counter() - start
        for shots in config.shots:
            start = time.perf_counter()
            label = f"fold {fold}, {shots}-shot"
            show = (lambda a, b, c, label=label: report(label, a, b, c)) if report else None
            outcomes[shots][fold] = run_tasks(
                dataset, planned.tasks[shots, fold], method, kept, config.protocol, world, show
            )
            timing[shots] += time.perf_counter() - start
    count = config.tasks * config.runs * len(planned.folds)
    results = {}
    for shots in config.shots:
        resolved = asdict(config) | {"shots": shots, "settings": method.settings(), "folds": planned.folds}
        resolved["form"] = form if config.method != "prototype" else None
        more = {
            "extractor": stores,
            "seen": seen,
            "timing": {
                "extraction_s": extraction,
                "tasks_s": timing[shots],
                "tasks_per_s": count / timing[shots],
                "processes": world.size,
                "peak_memory_gb": peak_memory(),
            },
        }
        hashes = {fold: planned.tasks[shots, fold].hash for fold in planned.folds}
        results[shots] = make_result(resolved, outcomes[shots], hashes, dict(dataset.classes), more)
    return results
