"""Items from recipe to files: missing cells are computed, then tables and figures are written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from .figures import curve_figure, delta_figure, table_figure, write_figure
from .lab import Lab
from .panels import figure_of_panels, panels_of
from .recipe import Cell, Item
from .report import Findings, table_of
from .speed import measure_speed, speed_table
from .table import Table, write_table

__all__ = ["Output", "Work", "produce", "work_of"]

IMAGES = ("maps", "panels")
"""Kinds of items that are images of tasks and have no cells to keep."""


@dataclass(frozen=True)
class Work:
    """What an item needs."""

    item: Item
    cells: tuple[Cell, ...]
    missing: tuple[Cell, ...]
    """Cells that are not kept."""
    left_out: tuple[str, ...]
    """Sentences about what cannot be computed here."""

    @property
    def possible(self) -> bool:
        """Whether there is anything to show."""
        return bool(self.cells)


@dataclass(frozen=True)
class Output:
    """The files of an item."""

    item: Item
    table: Table | None
    files: tuple[Path, ...]
    left_out: tuple[str, ...]


def work_of(lab: Lab, item: Item) -> Work:
    """The cells of an item, and which of them are missing. Cells without a result and without data are left out.

    Args:
        lab: Where cells are computed.
        item: The item.

    Returns:
        The work.
    """
    left_out = [why for way in item.ways if (why := lab.why_not(way)) is not None]
    data = lab.data_of(item)
    here = lab.place.has(data)
    option = "--coco-root" if data == "coco" else "--root"
    if item.kind in IMAGES:
        if not here:
            return Work(item, (), (), (f"{item.name} is left out: it needs images, which {option} names.",))
        return Work(item, tuple(lab.cells(item)), (), tuple(left_out))
    cells = lab.cells(item)
    kept = {cell: lab.find(cell) is not None for cell in cells}
    if not here:
        lacking = sum(not found for found in kept.values())
        if lacking or item.kind == "speed":
            left_out.append(f"{lacking} of {len(cells)} cells have no kept result, and {option} is not given.")
        cells = [] if item.kind == "speed" else [cell for cell in cells if kept[cell]]
    return Work(item, tuple(cells), tuple(cell for cell in cells if not kept[cell]), tuple(left_out))


def produce(lab: Lab, work: Work, folder: Path, tell: Callable[[Cell], None] | None = None) -> Output:
    """Compute the missing cells of an item and write its files.

    Args:
        lab: Where cells are computed.
        work: The item and its cells.
        folder: Folder of the files.
        tell: Called before a cell is computed.

    Returns:
        What was written.
    """
    item = work.item
    if item.kind in IMAGES:
        return Output(item, None, tuple(_images(lab, work, folder)), work.left_out)
    results = {}
    for cell in work.cells:
        kept = lab.find(cell)
        if kept is None:
            if tell is not None:
                tell(cell)
            kept = lab.compute(cell)
        results[cell] = kept
    findings = Findings(item, results, _facts(lab, work), work.left_out)
    if not lab.world.first:
        return Output(item, None, (), work.left_out)
    if item.kind == "speed":
        table = speed_table(findings, measure_speed(lab, item))
        return Output(item, table, tuple(write_table(table, folder)), work.left_out)
    table = table_of(findings)
    files = write_table(table, folder)
    draw = {"curve": curve_figure, "box": delta_figure, "folds": table_figure, "shots": table_figure}.get(item.kind)
    if draw is not None:
        files += write_figure(draw(findings), folder, item.name)
    return Output(item, table, tuple(files), work.left_out)


def _images(lab: Lab, work: Work, folder: Path) -> Sequence[Path]:
    panels, facts = panels_of(lab, work.item), _facts(lab, work)
    if not lab.world.first:
        return []
    facts = {name: value for name, value in facts.items() if name not in ("budget", "tasks")}
    figure = figure_of_panels(panels, work.item.kind == "panels", work.item.title, facts)
    return write_figure(figure, folder, work.item.name)


def _facts(lab: Lab, work: Work) -> dict[str, str]:
    """What every output names."""
    budget, cell = lab.place.amount, work.cells[0]
    folds = sorted({cell.fold for cell in work.cells})
    name = lab.settings(cell).extractor.name or ""
    data = {"scenes": "generated scenes", "coco-pascal": "COCO-20i → PASCAL VOC", "coco": "COCO-20i"}
    return {
        "data": data.get(cell.data, "PASCAL-5i"),
        "protocol": lab.place.protocol,
        **({"preset": lab.place.preset} if lab.place.preset else {}),
        "extractor": Path(name).name if "/" in name and not name.startswith("hub:") else name,
        "budget": budget.name,
        "tasks": f"{cell.runs}×{cell.tasks} for each fold and number of shots",
        "folds": ", ".join(map(str, folds)),
    }
