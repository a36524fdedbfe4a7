"""The plan of an evaluation; every mistake is reported when it is made, before any long work."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from repri.data.datasets.dataset import Dataset
from repri.data.datasets.folds import coco_to_pascal_novel
from repri.data.datasets.index import class_index
from repri.data.datasets.open import open_dataset
from repri.data.io.classes import PASCAL, among
from repri.data.tasks.tasks import TaskList, load_tasks, sample_tasks
from repri.features.extractor import FeatureExtractor
from repri.inference.config import PRESETS
from repri.methods import Method, build_method
from repri.protocols import Protocol, get_protocol
from repri.refine import get_refiner, refine_name
from repri.runtime.errors import RepriError

from .settings import EvaluationSettings

__all__ = ["Plan", "plan_evaluation"]


@dataclass(frozen=True)
class Plan:
    """The tasks of every fold and number of shots."""

    settings: EvaluationSettings
    dataset: Dataset
    protocol: Protocol
    tasks: dict[tuple[int, int], TaskList]
    """(shots, fold) → its tasks."""

    @property
    def folds(self) -> list[int]:
        """The folds that are tested."""
        return sorted({fold for _, fold in self.tasks})

    @property
    def refine(self) -> str:
        """The refinement of the probability maps."""
        return _refine(self.settings, self.protocol)

    @property
    def precision(self) -> str:
        """The precision of stored features."""
        return self.settings.precision or self.protocol.precision

    def classes(self, fold: int) -> list[str]:
        """Names of the classes that a fold tests."""
        return next(list(tasks.classes.values()) for (_, of), tasks in self.tasks.items() if of == fold)

    def preset(self, extractors: Mapping[int, FeatureExtractor]) -> str:
        """The inference preset: the one that was asked for, the protocol's, or the one that suits the extractors."""
        asked = self.settings.method.preset or self.protocol.preset
        wanted = {fold: extractor.default_preset for fold, extractor in extractors.items()}
        if asked is None:
            if len(set(wanted.values())) > 1:
                listed = ", ".join(f"fold {fold} {preset}" for fold, preset in wanted.items())
                raise RepriError(
                    f"The extractors of the folds want different presets ({listed}): choose one with --preset."
                )
            return next(iter(wanted.values()))
        if asked in PRESETS and PRESETS[asked].background == "known":
            for fold, extractor in extractors.items():
                if extractor.background is None:
                    raise RepriError(
                        f"The preset {asked} needs an extractor that knows the direction of backgrounds, and "
                        f"{extractor.name} (fold {fold}) does not: only extractors with a discriminant head do."
                    )
        return asked

    def method(self, preset: str, fold: int) -> Method:
        """The method with its settings, and with the trained network of a fold if it has one."""
        return _method(self.settings, preset, fold)


def plan_evaluation(settings: EvaluationSettings, progress: Callable[[int, int], None] | None = None) -> Plan:
    """Open the data and draw the tasks.

    Args:
        settings: The settings.
        progress: Called while the pixels of the classes are counted.

    Returns:
        The plan, in which every setting is resolved.
    """
    protocol, data = get_protocol(settings.protocol), settings.data
    if "{fold}" not in f"{settings.method.name} {settings.method.weights}":
        _method(settings, settings.method.preset or protocol.preset or "clean", 0)
    get_refiner(_refine(settings, protocol))
    shifted = data.test_data not in (None, data.name)
    if shifted and (data.name, data.test_data) != ("coco", "pascal"):
        raise RepriError(f"The shift from {data.name} to {data.test_data} is not known: only coco to pascal is.")
    if data.test_root is not None and not shifted:
        raise RepriError("test_root is the folder of another data set to test on, and none is given: use root.")
    if data.folds is not None and (not data.folds or len(set(data.folds)) < len(data.folds)):
        raise RepriError(f"folds must name folds of the data set, each once, got {list(data.folds)}.")
    if not settings.tasks.shots or len(set(settings.tasks.shots)) < len(settings.tasks.shots):
        raise RepriError(f"shots must name numbers of support images, each once, got {list(settings.tasks.shots)}.")
    if data.min_pixels < 1:
        raise RepriError(f"min_pixels must be at least 1, got {data.min_pixels}.")
    name, root = (data.test_data, data.test_root or data.root) if shifted else (data.name, data.root)
    dataset = open_dataset(str(name), root, data.split, settings.protocol)
    folds = range(4 if shifted else len(dataset.folds)) if data.folds is None else data.folds
    novel = {f: _novel(dataset, f, shifted, protocol) for f in folds}
    if settings.extractor.name is None:
        tested = (dataset.classes[id] for ids in novel.values() for id in ids)
        chosen = _embedded_for(settings, tested, shifted)
        settings = replace(settings, extractor=replace(settings.extractor, name=chosen))
    if settings.tasks.task_list is not None:
        return _plan_of_list(settings, dataset, protocol, novel)
    index, drawn = class_index(dataset, data.min_pixels, progress=progress), settings.tasks
    tasks = {
        (shots, fold): sample_tasks(
            dataset, novel[fold], shots, drawn.tasks, drawn.runs, drawn.seed, drawn.sampling, index
        )
        for fold in folds
        for shots in drawn.shots
    }
    return Plan(settings, dataset, protocol, tasks)


def _method(settings: EvaluationSettings, preset: str, fold: int) -> Method:
    """The method of a fold."""
    chosen = settings.method
    name, weights = (text and text.replace("{fold}", str(fold)) for text in (chosen.name, chosen.weights))
    return build_method(name or "", preset, chosen.settings, weights)


def _refine(settings: EvaluationSettings, protocol: Protocol) -> str:
    return refine_name(protocol.refine if settings.refine == "default" else settings.refine, settings.regions)


def _novel(dataset: Dataset, fold: int, shifted: bool, protocol: Protocol) -> tuple[int, ...]:
    return coco_to_pascal_novel(fold, protocol.swaps_cat_and_car) if shifted else dataset.novel(fold)


def _embedded_for(settings: EvaluationSettings, classes: Iterable[str], shifted: bool) -> str:
    """The variant of the embedded model that has not seen labels of the tested classes."""
    if settings.extractor.weights is not None:
        raise RepriError("The setting weights needs an extractor to which the weights belong: give --extractor.")
    layers = settings.extractor.layers
    if layers is None and settings.data.name == "pascal" and not shifted:
        return "default-fold{fold}"
    return "distilled" if among(classes, PASCAL) or layers is not None else "default"


def _plan_of_list(
    settings: EvaluationSettings, dataset: Dataset, protocol: Protocol, novel: Mapping[int, Sequence[int]]
) -> Plan:
    """The tasks of a file, which also says how many shots, runs and tasks there are."""
    path = settings.tasks.task_list
    if len(novel) != 1:
        raise RepriError(f"The task list {path} belongs to one fold: name it with --fold.")
    tasks = load_tasks(Path(str(path)), dataset)
    ((fold, classes),) = novel.items()
    for id, name in tasks.classes.items():
        if id not in classes:
            raise RepriError(f"The task list {path} tests {name!r}, which fold {fold} does not hold out.")
    drawn = {"shots": (tasks.shots,), "runs": len(tasks.runs), "tasks": len(tasks.runs[0])}
    resolved = replace(settings.tasks, **drawn, seed=tasks.seed, sampling=tasks.sampling)
    return Plan(replace(settings, tasks=resolved), dataset, protocol, {(tasks.shots, fold): tasks})
