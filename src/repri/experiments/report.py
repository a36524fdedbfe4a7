"""Tables of items: the results of their cells beside the paper's numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from repri.evaluation.results import counts_of, paired_difference

from .published import Published, published
from .recipe import Cell, Item, Way
from .store import Kept
from .table import Number, Table

__all__ = ["Findings", "mean_of_folds", "table_of"]

EXACT = "± is half of the 95 % interval over our tasks; the paper gives no interval, so its numbers count as exact."

SHAPE = (
    "Generated scenes are not the paper's data: the budget quick checks that all runs, and its numbers do not count."
)


@dataclass(frozen=True)
class Findings:
    """An item and the results of its cells."""

    item: Item
    results: Mapping[Cell, Kept]
    facts: dict[str, str]
    """Protocol, extractor, budget and tasks."""
    left_out: tuple[str, ...] = ()
    """Sentences about what could not be computed."""

    @property
    def ways(self) -> list[Way]:
        """The ways that have results, in the order of the recipe."""
        return list(dict.fromkeys(cell.way for cell in self.results))

    @property
    def folds(self) -> list[int]:
        return sorted({cell.fold for cell in self.results})

    def of(self, way: Way, shots: int) -> dict[int, Kept]:
        """Fold → result of a way."""
        return {cell.fold: kept for cell, kept in self.results.items() if (cell.way, cell.shots) == (way, shots)}


def mean_of_folds(folds: Sequence[Mapping[str, Any]]) -> tuple[float, float, float]:
    """Mean mIoU of folds and its interval. Folds are independent: half-widths add as squares do.

    Args:
        folds: Values of each fold: ``miou`` and ``interval``.

    Returns:
        The mean, the lower and the upper end.

    Example:
        >>> mean_of_folds([{"miou": 50, "interval": [47, 54]}, {"miou": 60, "interval": [56, 63]}])
        (55.0, 52.5, 57.5)
    """
    mean = sum(fold["miou"] for fold in folds) / len(folds)
    low = math.sqrt(sum((fold["miou"] - fold["interval"][0]) ** 2 for fold in folds)) / len(folds)
    high = math.sqrt(sum((fold["interval"][1] - fold["miou"]) ** 2 for fold in folds)) / len(folds)
    return mean, mean - low, mean + high


def table_of(findings: Findings) -> Table:
    """The table of an item, in the layout of its kind."""
    makers = {"folds": _by_fold, "shots": _by_shots, "curve": _curve, "box": _box, "choice": _choice, "list": _by_shots}
    return makers[findings.item.kind](findings)


def _paper(item: Item) -> Published | None:
    return None if item.paper is None else published(item.paper)


def _number(kept: Kept | None, paper: float | None) -> Number:
    if kept is None:
        return Number(None, paper=paper)
    return Number(kept.values["miou"], *kept.values["interval"], paper=paper)


def _mean(findings: Findings, way: Way, shots: int, paper: float | None) -> Number:
    """The mean over folds; the paper's is that of four folds, so there is a difference only if we have all."""
    folds = findings.of(way, shots)
    if not folds:
        return Number(None, paper=paper)
    whole = tuple(sorted(folds)) == findings.item.folds
    return Number(*mean_of_folds([kept.values for kept in folds.values()]), paper=paper, comparable=whole)


def _notes(findings: Findings, *more: str) -> tuple[str, ...]:
    paper = _paper(findings.item)
    compared = (EXACT, *(f"Paper: {note}" for note in paper.notes)) if paper else ()
    wrong = [
        f"Paper: {x.method} ({x.backbone}, {x.shots}-shot) has the mean {x.printed}, and its folds have {x.folds}."
        for x in (paper.means if paper else ())
    ]
    compared = (SHAPE, *compared) if findings.facts.get("budget") == "quick" and compared else compared
    return (*more, *compared, *wrong, *findings.item.notes, *findings.left_out, *_sources(findings))


def _sources(findings: Findings) -> list[str]:
    """Where the results are kept."""
    files = sorted({kept.path.as_posix() for kept in findings.results.values()})
    if len(files) > 8:
        folders = sorted({Path(file).parent.as_posix() for file in files})
        return [f"Results: {len(files)} files in {', '.join(folders)}."]
    return [f"Results: {', '.join(files)}."] if files else []


def _by_fold(findings: Findings) -> Table:
    """Rows: ways and shots. Columns: folds and their mean. Then what each way adds to the first, on the same tasks."""
    item, paper, rows = findings.item, _paper(findings.item), []
    folds = item.folds if paper else findings.folds
    for shots in item.shots:
        for way in findings.ways:
            numbers = []
            for fold in folds:
                printed = None if paper is None else paper.value(way.name, shots, fold)
                numbers.append(_number(findings.of(way, shots).get(fold), printed))
            printed = None if paper is None else paper.value(way.name, shots)
            rows.append((_label(way, shots), (*numbers, _mean(findings, way, shots, printed))))
        rows += _published_only(findings, paper, shots)
    columns = (*(f"fold {fold}" for fold in folds), "mean")
    return Table(item.name, item.title, columns, tuple(rows), _notes(findings, *_paired(findings)), findings.facts)


def _label(way: Way, shots: int) -> str:
    return f"{way.name}, {shots} shot{'s' if shots > 1 else ''}"


def _published_only(findings: Findings, paper: Published | None, shots: int) -> list[tuple[str, tuple[Number, ...]]]:
    """Rows of the paper that have no result of ours."""
    if paper is None or findings.item.kind != "folds":
        return []
    have = {way.name for way in findings.ways}
    rows = []
    for row in paper.rows:
        if row.get(shots) is None or (row["method"] in have and row["backbone"] == "ResNet-50"):
            continue
        values = [paper.value(row["method"], shots, fold, row["backbone"]) for fold in (*findings.item.folds, None)]
        label = f"{row['method']} ({row['backbone']}), {shots} shot{'s' if shots > 1 else ''}"
        if any(value is not None for value in values):
            rows.append((label, tuple(Number(None, paper=value) for value in values)))
    return rows


def _paired(findings: Findings) -> list[str]:
    """What each way adds to the first on the same tasks, with intervals, where single tasks are kept."""
    sentences, ways = [], findings.ways
    for shots in findings.item.shots:
        first = findings.of(ways[0], shots) if ways else {}
        for way in ways[1:]:
            second = findings.of(way, shots)
            pairs = [(first[fold], second[fold]) for fold in first if fold in second]
            if not pairs or not all(_same_tasks(*pair) for pair in pairs):
                continue
            rows = [(counts_of(a.result, a.fold), counts_of(b.result, b.fold)) for a, b in pairs]
            centre, low, high = paired_difference(rows)
            text = f"{centre:+.1f} ({low:+.1f} … {high:+.1f})".replace("-", "−")
            sentences.append(f"On the same tasks, {_label(way, shots)}, against {ways[0].name}: {text}.")
    return sentences


def _same_tasks(first: Kept, second: Kept) -> bool:
    kept = "tasks" in first.result and "tasks" in second.result
    return kept and first.values["tasks_hash"] == second.values["tasks_hash"]


def _by_shots(findings: Findings) -> Table:
    """Rows: ways. Columns: shots, mean over folds."""
    item, paper, rows = findings.item, _paper(findings.item), []
    names = [way.name for way in findings.ways]
    for way in findings.ways:
        values = [_mean(findings, way, k, paper.value(way.name, k) if paper else None) for k in item.shots]
        rows.append((way.name, tuple(values)))
    for row in paper.rows if paper else ():
        if row["method"] not in names:
            rows.append((row["method"], tuple(Number(None, paper=row.get(k)) for k in item.shots)))
    columns = tuple(f"{k} shot{'s' if k > 1 else ''}" for k in item.shots)
    return Table(item.name, item.title, columns, tuple(rows), _notes(findings, *_paired(findings)), findings.facts)


def _curve(findings: Findings) -> Table:
    """Rows: values of the sweep. Columns: shots, mean over folds."""
    item = findings.item
    assert item.sweep is not None
    rows = tuple(
        (
            f"{item.sweep.setting} = {dict(way.settings)[item.sweep.setting]:g}",
            tuple(_mean(findings, way, shots, None) for shots in item.shots),
        )
        for way in findings.ways
    )
    columns = tuple(f"{k} shot{'s' if k > 1 else ''}" for k in item.shots)
    return Table(item.name, item.title, columns, rows, _notes(findings), findings.facts)


def _box(findings: Findings) -> Table:
    """Rows: the start and the end. Columns: quantiles and mean of δ."""
    item = findings.item
    rows = []
    for kept in findings.results.values():
        error = kept.values["proportion_error"]
        for name, label in (("initial", "at the start"), ("final", "after 10 steps")):
            numbers = [*error[f"{name}_quantiles"], error[f"{name}_mean"]]
            paper = {5: 0.7} if name == "final" else {}
            values = tuple(Number(x, paper=paper.get(i), digits=2) for i, x in enumerate(numbers))
            rows.append((f"δ {label}", values))
    columns = ("5 %", "25 %", "median", "75 %", "95 %", "mean")
    return Table(item.name, item.title, columns, tuple(rows), _notes(findings), findings.facts)


def _choice(findings: Findings) -> Table:
    """Rows: settings. Columns: mIoU by shots, then the mean over the base classes of each fold. A fold may only use the
    classes of the other folds."""
    item, rows, base = findings.item, [], {}
    for way in findings.ways:
        scores = {k: {fold: x.values["miou"] for fold, x in findings.of(way, k).items()} for k in item.shots}
        for fold in findings.folds:
            others = [[score for f, score in scores[k].items() if f != fold] for k in item.shots]
            means = [sum(x) / len(x) for x in others if x]
            base[way.name, fold] = sum(means) / len(means) if means else math.nan
        means = [_mean(findings, way, k, None) for k in item.shots]
        rows.append((way.name, (*means, *(Number(base[way.name, fold]) for fold in findings.folds))))
    best = [
        f"The base classes of fold {fold} choose {max(findings.ways, key=lambda w, f=fold: base[w.name, f]).name}."
        for fold in findings.folds
        if len(findings.folds) > 1
    ]
    columns = (*(f"{k}-shot" for k in item.shots), *(f"base of fold {fold}" for fold in findings.folds))
    return Table(item.name, item.title, columns, tuple(rows), _notes(findings, *best), findings.facts)
