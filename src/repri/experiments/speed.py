"""Tasks per second of all methods, on one machine in one run: the methods take turns on the same tasks."""

from __future__ import annotations

import platform
import statistics
import time
from collections.abc import Sequence
from itertools import islice
from typing import Any

from repri.evaluation.runner import Runner, images_of
from repri.features.extractor import features_of
from repri.features.store import FeatureStore

from .lab import Lab
from .published import published
from .recipe import Cell, Item
from .report import Findings, mean_of_folds
from .table import Number, Table

__all__ = ["machine", "measure_speed", "speed_table"]

MEASURED = {"full": 50, "here": 20, "quick": 3}
"""Tasks that are timed for each method, by budget."""
TURNS = 3
"""Times that each method is timed; the median counts."""


def machine() -> str:
    """The processor, and the threads that torch uses."""
    import torch

    name = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo") as file:
            name = next(line.split(":", 1)[1].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    return f"{name}, {torch.get_num_threads()} thread{'s' if torch.get_num_threads() > 1 else ''}"


def measure_speed(lab: Lab, item: Item) -> dict[Cell, tuple[float, float]]:
    """Time each way of an item.

    Args:
        lab: Where cells are computed.
        item: The item.

    Returns:
        Cell → tasks per second with stored features, and from images on.
    """
    cells, speeds = lab.cells(item), {}
    for shots in item.shots:
        chosen = [cell for cell in cells if cell.shots == shots]
        speeds |= _turns(lab, chosen, MEASURED[lab.place.budget])
    return speeds


def _turns(lab: Lab, cells: Sequence[Cell], count: int) -> dict[Cell, tuple[float, float]]:
    plan, extractor = lab.plan(cells[0]), lab.extractor(cells[0])
    store = FeatureStore(extractor, plan.protocol.resize, plan.settings.extractor.size, precision=plan.precision)
    drawn = plan.tasks[cells[0].shots, cells[0].fold]
    tasks = list(islice((task for run in drawn.runs for task in run), count))
    store.prepare(images_of(plan.dataset, drawn))
    extraction = _extraction(lab, cells[0], store)
    runners = {}
    for cell in cells:
        own = lab.plan(cell)
        method = own.method(own.preset({cell.fold: extractor}), cell.fold)
        method.prepare(extractor)
        runners[cell] = Runner(plan.dataset, method, store, plan.protocol, plan.refine)
    times: dict[Cell, list[float]] = {cell: [] for cell in cells}
    for turn in range(TURNS + 1):
        for cell, runner in runners.items():
            start = time.perf_counter()
            for task in tasks:
                runner.score(runner.load(task))
            if turn:  # the first turn reads files
                times[cell].append((time.perf_counter() - start) / len(tasks))
    images = cells[0].shots + 1
    medians = {cell: statistics.median(values) for cell, values in times.items()}
    return {cell: (1 / seconds, 1 / (seconds + images * extraction)) for cell, seconds in medians.items()}


def _extraction(lab: Lab, cell: Cell, store: FeatureStore) -> float:
    """Median seconds to read an image and compute its features."""
    dataset, seconds = lab.plan(cell).dataset, []
    for sample in dataset.samples[:6]:
        start = time.perf_counter()
        image = dataset.image(sample.id)
        features_of(store.extractor, image, store.view((image.shape[0], image.shape[1])), store.precision)
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds[1:])


def speed_table(findings: Findings, speeds: dict[Cell, tuple[float, float]]) -> Table:
    """Tasks per second and mIoU of all methods, beside the paper's."""
    item, paper, rows = findings.item, published(str(findings.item.paper)), []
    for way in findings.ways:
        values: list[Any] = []
        for shots in item.shots:
            folds = findings.of(way, shots)
            cell = next(cell for cell in speeds if (cell.way, cell.shots) == (way, shots))
            stored, whole = speeds[cell]
            score = mean_of_folds([kept.values for kept in folds.values()])
            values += [Number(whole, paper=paper.speed(way.name, shots)), Number(stored), Number(*score)]
        rows.append((way.name, tuple(values)))
    have = {way.name for way in findings.ways}
    for row in paper.rows:
        if row["method"] not in have:
            numbers = [(row["speed"].get(k), None, row.get(k)) for k in item.shots]
            rows.append((row["method"], tuple(Number(None, paper=x) for triple in numbers for x in triple)))
    columns = tuple(
        f"{k}-shot: {what}" for k in item.shots for what in ("tasks/s from images", "tasks/s, features stored", "mIoU")
    )
    notes = (
        "The methods took turns on the same tasks in one run; medians are shown. Our mIoU is of fold 0 alone.",
        *(f"Paper: {note}" for note in paper.notes),
        *findings.left_out,
    )
    return Table(item.name, item.title, columns, tuple(rows), notes, findings.facts | {"machine": machine()})
