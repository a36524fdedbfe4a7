"""Where cells are computed: extractors, task lists and results, each made once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from repri.data.datasets.index import class_index, class_lists
from repri.data.tasks.tasks import sample_tasks
from repri.evaluation import EvaluationSettings, Plan, evaluate_folds, plan_evaluation
from repri.evaluation.settings import DataSettings, TaskSettings
from repri.features.extractor import FeatureExtractor
from repri.methods.learned import LearnedMethod
from repri.methods.registry import METHODS, Late
from repri.methods.settings import MethodSettings
from repri.models.load import build_extractor
from repri.models.settings import ExtractorSettings
from repri.protocols import get_protocol
from repri.runtime.distributed import World, default_device
from repri.runtime.errors import RepriError

from .identity import data_files, identity_of
from .recipe import Cell, Data, Item, Way
from .settings import ReproduceSettings
from .store import CellStore, Kept

__all__ = ["Lab", "network_of"]

Report = Callable[[str, int, int, Any], None]
QUICK_SIZE = 96
"""Long side of generated scenes in pixels, so that a task takes little time."""


class Lab:
    """Computes cells, or takes them from the store.

    Args:
        place: What is there.
        store: Where results are kept.
        world: The processes that share the work.
        report: Called as the work goes on.
    """

    def __init__(
        self, place: ReproduceSettings, store: CellStore, world: World | None = None, report: Report | None = None
    ):
        self.place, self.store, self.world, self.report = place, store, world or World(), report
        self._extractors: dict[tuple[Any, ...], FeatureExtractor] = {}
        self._plans: dict[tuple[Any, ...], Plan] = {}
        self._files: dict[tuple[str, str], str] = {}

    @cached_property
    def quick(self) -> bool:
        """Whether everything is computed on generated scenes."""
        return self.place.budget == "quick"

    def cells(self, item: Item) -> list[Cell]:
        """The cells of an item within the budget, without those that cannot be computed here."""
        budget, data = self.place.amount, self.data_of(item)
        common = {"runs": budget.runs, "tasks": budget.tasks, "seed": item.seed}
        images = self.place.images if item.split == "train" else None
        return [
            Cell(data, self.way_of(item, way), shots, fold, split=item.split, images=images, **common)
            for way in item.ways_of(budget.name)
            if self.why_not(way) is None
            for shots in item.shots
            for fold in item.folds_of(budget.name, self.place.folds)
        ]

    def data_of(self, item: Item) -> Data:
        """The data set of an item within the budget."""
        return "scenes" if self.quick else item.data

    def way_of(self, item: Item, way: Way) -> Way:
        """A way with the extractor of an item that is about a certain one; options of networks make no sense for the
        tiny extractor of the budget ``quick``."""
        if item.extractor is not None:
            return replace(way, options=(*way.options, ("name", item.extractor)))
        return replace(way, options=()) if self.quick else way

    def why_not(self, way: Way) -> str | None:
        """Why a way cannot be computed here, in one sentence; None if it can."""
        if way.method not in METHODS:
            return f"{way.name} is left out: the method {way.method} is not registered."
        if way.variant is not None and "{variant}" not in (self.place.heads or ""):
            return f"{way.name} is left out: name networks by --heads with {{variant}}, which becomes {way.variant}."
        kind = network_of(way.method)
        if kind is not None and kind.must_be_trained() and self.place.heads is None:
            return f"{way.name} is left out: it needs a trained head, which --heads names."
        return None

    def settings(self, cell: Cell) -> EvaluationSettings:
        """The evaluation of a cell."""
        shifted = cell.data == "coco-pascal"
        data = DataSettings(
            name="coco" if shifted else cell.data,
            root=self.place.root_of(cell.data),
            split=cell.split,
            folds=(cell.fold,),
            test_data="pascal" if shifted else None,
        )
        tasks = TaskSettings(shots=(cell.shots,), runs=cell.runs, tasks=cell.tasks, seed=cell.seed)
        preset = cell.way.preset or self.place.preset
        method = MethodSettings(cell.way.method, self._head(cell), preset, dict(cell.way.settings))
        return EvaluationSettings(data, tasks, self._extractor_settings(cell), method, self.place.protocol)

    def _head(self, cell: Cell) -> str | None:
        """The file of the trained network of a cell's method, if it has one."""
        if self.place.heads is None or network_of(cell.way.method) is None:
            return None
        names = {"{method}": cell.way.method, "{fold}": str(cell.fold), "{variant}": cell.way.variant or "{variant}"}
        head = self.place.heads
        for place, name in names.items():
            head = head.replace(place, name)
        return head

    def _extractor_settings(self, cell: Cell) -> ExtractorSettings:
        chosen = replace(self.place.extractor, **dict(cell.way.options))
        if chosen.name is not None:
            return chosen
        if cell.data == "scenes":
            return replace(chosen, name="filters", size=chosen.size or QUICK_SIZE)
        whole = cell.data != "pascal" or chosen.layers is not None or cell.split == "train"
        return replace(chosen, name="distilled" if whole else "default-fold{fold}")

    def extractor(self, cell: Cell) -> FeatureExtractor:
        """The extractor of a cell."""
        settings = replace(self._extractor_settings(cell), size=None)
        fixed = "{fold}" not in f"{settings.name} {settings.weights}"
        key = (settings, None if fixed else cell.fold)
        if key not in self._extractors:
            self._extractors[key] = build_extractor(settings, default_device(), cell.fold)
        return self._extractors[key]

    def plan(self, cell: Cell) -> Plan:
        """The tasks of a cell, and its settings; the tasks of equal cells are drawn once."""
        settings = self.settings(cell)
        key = (cell.data, cell.split, cell.shots, cell.fold, cell.runs, cell.tasks, cell.seed, cell.images)
        if key not in self._plans:
            tell = self.report
            count = None if tell is None else lambda done, total: tell("count classes", done, total, None)
            drawn = plan_evaluation(settings, count)
            self._plans[key] = drawn if cell.images is None else _thinned(drawn, cell.images)
        return replace(self._plans[key], settings=settings)

    def identity(self, cell: Cell) -> dict[str, Any]:
        """What decides the result of a cell. The data need not be here."""
        settings, extractor = self.settings(cell), self.extractor(cell)
        plan = Plan(settings, None, get_protocol(settings.protocol), {})  # ty: ignore[invalid-argument-type]
        preset = plan.preset({cell.fold: extractor})
        values: dict[str, Any] = asdict(settings) | {"refine": plan.refine, "precision": plan.precision}
        values["tasks"]["shots"] = cell.shots
        values["method"]["settings"] = plan.method(preset, cell.fold).settings()
        return identity_of(values, cell.fold, extractor.fingerprint, cell.images)

    def find(self, cell: Cell) -> Kept | None:
        """The result of a cell, if it is kept."""
        if not self.place.has(cell.data):
            return self.store.find(self.identity(cell), None, None)
        return self.store.find(self.identity(cell), self._hash(cell), self._files_of(cell))

    def _hash(self, cell: Cell) -> str:
        return self.plan(cell).tasks[cell.shots, cell.fold].hash

    def _files_of(self, cell: Cell) -> str:
        key = (cell.data, cell.split)
        if key not in self._files:
            self._files[key] = data_files(self.plan(cell).dataset)
        return self._files[key]

    def compute(self, cell: Cell) -> Kept:
        """Evaluate a cell and keep its result."""
        if not self.place.has(cell.data):
            option = "--coco-root" if cell.data == "coco" else "--root"
            raise RepriError(f"There is no kept result of {cell.label}, and no data to compute it: give {option}.")
        plan, extractor = self.plan(cell), self.extractor(cell)
        result = evaluate_folds(plan, lambda fold: extractor, self.world, self.report)[cell.shots]
        result |= {"data_files": self._files_of(cell), "cell": {"images": cell.images}}
        for name in ("root", "test_root"):
            result["config"]["data"][name] = None  # where it was computed does not matter, and is nobody's business
        if not self.world.first:
            return Kept(Path(), str(cell.fold), result)
        return self.store.save(self.identity(cell), cell.label, result)


def network_of(method: str) -> type[LearnedMethod] | None:
    """The kind of a registered method that has a network to train; None for other methods."""
    builder = METHODS[method]
    kind = builder.builder if isinstance(builder, Late) else builder
    return kind if isinstance(kind, type) and issubclass(kind, LearnedMethod) else None


def _thinned(plan: Plan, images: int) -> Plan:
    """The same number of tasks, drawn from ``images`` images of each class, evenly over its list."""
    whole, of = plan.dataset, plan.settings.tasks
    lists = class_lists(whole, class_index(whole)).values()
    kept = {ids[i * len(ids) // images] for ids in lists for i in range(min(images, len(ids)))}
    dataset = replace(whole, samples=tuple(sample for sample in whole.samples if sample.id in kept))
    tasks = {
        (shots, fold): sample_tasks(dataset, dataset.novel(fold), shots, of.tasks, of.runs, of.seed)
        for shots, fold in plan.tasks
    }
    return replace(plan, dataset=dataset, tasks=tasks)
