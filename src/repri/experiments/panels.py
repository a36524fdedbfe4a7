"""Images of single tasks: probabilities by the terms of the objective, and masks before and after the fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from repri.data.tasks.tasks import Task
from repri.evaluation.runner import Runner
from repri.features.store import FeatureStore
from repri.runtime.draw import highlight

from .demo import iou
from .lab import Lab
from .plots import new_figure, titled
from .recipe import Cell, Item

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Panel", "figure_of_panels", "panels_of"]

SHOWN = 4
"""Tasks that are shown: the first of different classes."""
SIDE = 1.75
"""Width of an image in inches."""


@dataclass(frozen=True, eq=False)
class Panel:
    """One task."""

    name: str
    """The class."""
    support: np.ndarray
    """[H, W, 3] with the object outlined."""
    query: np.ndarray
    """[H, W, 3] with the true object outlined."""
    image: np.ndarray
    """[H, W, 3] the query."""
    maps: dict[str, np.ndarray]
    """Way → probability of the object [H, W]."""
    scores: dict[str, float]
    """Way → IoU."""


def panels_of(lab: Lab, item: Item) -> list[Panel]:
    """Segment a few tasks in each way of an item, and from the start without a step.

    Args:
        lab: Where cells are computed.
        item: The item, whose first cell gives data, tasks and extractor.

    Returns:
        One panel for each task.
    """
    cells = lab.cells(item)
    plan, extractor = lab.plan(cells[0]), lab.extractor(cells[0])
    store = FeatureStore(extractor, plan.protocol.resize, plan.settings.extractor.size, precision=plan.precision)
    drawn = plan.tasks[cells[0].shots, cells[0].fold]
    tasks = _different(drawn.runs[0])
    store.prepare(sorted({plan.dataset[id].image for task in tasks for id in (task.query, *task.support)}))
    first = cells[-1].way.set(steps=0)
    ways = {"initial": first} | {cell.way.name: cell.way for cell in cells}
    return [_panel(task, lab, cells[0], ways, store) for task in tasks]


def _different(tasks: Sequence[Task]) -> list[Task]:
    """The first tasks of different classes, then others."""
    seen: dict[int, Task] = {}
    for task in tasks:
        seen.setdefault(task.class_id, task)
    chosen = list(seen.values())[:SHOWN]
    return chosen + [task for task in tasks if task not in chosen][: SHOWN - len(chosen)]


def _panel(task: Task, lab: Lab, cell: Cell, ways: dict, store: FeatureStore) -> Panel:
    maps, scores, dataset = {}, {}, lab.plan(cell).dataset
    for name, way in ways.items():
        plan = lab.plan(Cell(cell.data, way, cell.shots, cell.fold, cell.runs, cell.tasks))
        method = plan.method(plan.preset({cell.fold: store.extractor}), cell.fold)
        method.prepare(store.extractor)
        runner = Runner(dataset, method, store, plan.protocol, plan.refine)
        loaded = runner.load(task)
        prediction = method.predict(loaded.episode)
        maps[name] = loaded.truth.view.restore(torch.sigmoid(prediction.logits)[None])[0].numpy()
        scores[name] = iou(maps[name] > 0.5, loaded.truth.mask)
    image, mask = dataset.pair(task.query)
    shot, drawn = dataset.pair(task.support[0])
    truth, own = highlight(image, mask == task.class_id), highlight(shot, drawn == task.class_id)
    return Panel(dataset.classes[task.class_id], own, truth, image, maps, scores)


def figure_of_panels(panels: Sequence[Panel], masks: bool, title: str, facts: Mapping[str, Any]) -> Figure:
    """Draw tasks one below the other.

    Args:
        panels: The tasks.
        masks: Whether masks are drawn on the query instead of probabilities.
        title: What stands above.
        facts: What decided the figure.

    Returns:
        The figure.
    """
    names = ["support", "query", *panels[0].maps]
    figure = new_figure(SIDE * len(names), SIDE * len(panels) + 0.9)
    axes = figure.subplots(len(panels), len(names), squeeze=False)
    for row, panel in zip(axes, panels, strict=True):
        shown = [panel.support, panel.query]
        shown += [highlight(panel.image, x > 0.5) if masks else x for x in panel.maps.values()]
        for place, image, name in zip(row, shown, names, strict=True):
            place.imshow(image, vmin=0, vmax=1, cmap="cividis")
            place.set_xticks([])
            place.set_yticks([])
            score = panel.scores.get(name)
            place.set_xlabel("" if score is None else f"IoU {100 * score:.0f}", fontsize=8)
        row[0].set_ylabel(panel.name, fontsize=8, parse_math=False)
    for place, name in zip(axes[0], names, strict=True):
        place.set_title({"initial": "before the fit"}.get(name, name), fontsize=8)
    return titled(figure, title, facts)
