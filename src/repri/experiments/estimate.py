"""How long missing cells would take, by seconds that are measured on this machine."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from repri.evaluation.runner import Runner, images_of
from repri.features.store import FeatureStore

from .lab import Lab
from .recipe import Cell

__all__ = ["Estimate", "estimate"]

MEASURED = 2
"""Tasks that are timed for each method and number of shots, after one that is not."""


@dataclass(frozen=True)
class Estimate:
    """The time of missing cells."""

    seconds: dict[Cell, float]
    """Cell → seconds of its tasks."""
    per_task: dict[tuple[str, int], float]
    """Method and shots → seconds of a task."""
    images: int
    """Images whose features are not stored."""
    extraction: float
    """Seconds to compute them."""

    @property
    def total(self) -> float:
        """Seconds of everything."""
        return sum(self.seconds.values()) + self.extraction


def estimate(lab: Lab, cells: Sequence[Cell]) -> Estimate:
    """Time a few tasks of each method and number of shots.

    Args:
        lab: Where cells are computed.
        cells: Missing cells whose data are here.

    Returns:
        The estimate; features of the timed tasks are kept.
    """
    per_task: dict[tuple[str, int], float] = {}
    seconds: dict[Cell, float] = {}
    lacking: set[tuple[str, object]] = set()
    per_image = 0.0
    for cell in cells:
        plan, extractor = lab.plan(cell), lab.extractor(cell)
        store = FeatureStore(extractor, plan.protocol.resize, plan.settings.extractor.size, precision=plan.precision)
        drawn = plan.tasks[cell.shots, cell.fold]
        key = (cell.way.method, cell.shots)
        if key not in per_task:
            tasks = list(islice((task for run in drawn.runs for task in run), 1 + MEASURED))
            images = {plan.dataset[id].image for task in tasks for id in (task.query, *task.support)}
            start, missing = time.perf_counter(), len(store.lacking(list(images)))
            store.prepare(sorted(images))
            if missing:
                per_image = max(per_image, (time.perf_counter() - start) / missing)
            method = plan.method(plan.preset({cell.fold: extractor}), cell.fold)
            method.prepare(extractor)
            runner = Runner(plan.dataset, method, store, plan.protocol, plan.refine)
            runner.score(runner.load(tasks[0]))
            start = time.perf_counter()
            for task in tasks[1:]:
                runner.score(runner.load(task))
            per_task[key] = (time.perf_counter() - start) / MEASURED
        lacking |= {(extractor.fingerprint, path) for path in store.lacking(images_of(plan.dataset, drawn))}
        seconds[cell] = per_task[key] * cell.runs * cell.tasks
    return Estimate(seconds, per_task, len(lacking), len(lacking) * per_image)
