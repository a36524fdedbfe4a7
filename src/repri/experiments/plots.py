"""Figures drawn from result files."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from repri.evaluation.results import Comparison
from repri.runtime.errors import MissingExtraError, RepriError
from repri.runtime.files import atomic
from repri.runtime.reading import read_text

__all__ = ["new_figure", "plot_comparison", "plot_training", "titled"]


FORMATS = (".png", ".svg", ".pdf", ".jpg")
"""Suffixes of figures."""


def plot_comparison(compared: Sequence[Comparison], path: Path) -> Path:
    """Draw the mIoU of each result with its 95 % interval, and its folds as strokes.

    Args:
        compared: The results.
        path: File to write; a PNG if the name has no suffix.

    Returns:
        The file.
    """
    if path.is_dir() or path.suffix.lower() not in ("", *FORMATS):
        raise RepriError(f"{path} cannot be drawn: give a file name that ends in {', '.join(FORMATS)}.")
    path = path if path.suffix else path.with_suffix(".png")
    figure = new_figure(7, 0.9 + 0.45 * len(compared))
    axes = figure.subplots()
    for row, item in enumerate(compared):
        result = item.result
        low, high = result["interval"]
        axes.errorbar(
            result["miou"], row, xerr=[[result["miou"] - low], [high - result["miou"]]], fmt="o", color="C0", capsize=3
        )
        folds = [values["miou"] for values in result["per_fold"].values()]
        axes.plot(folds, [row] * len(folds), "|", color="0.6", markersize=9)
    labels = [f"{c.path.stem} ({c.result['method']}, {c.result['shots']}-shot)" for c in compared]
    axes.set_yticks(range(len(compared)), labels, fontsize=8, parse_math=False)
    axes.invert_yaxis()
    axes.set_xlabel("mIoU (95 % interval; strokes: folds)", fontsize=8)
    axes.grid(axis="x", alpha=0.3)
    with atomic(path) as temporary:
        figure.savefig(temporary)
    return path


def plot_training(folder: Path) -> Path:
    """Draw the loss and the base mIoU over the epochs of a run.

    Args:
        folder: Folder of the run.

    Returns:
        ``folder/log.png``.
    """
    path = folder / "log.csv"
    try:
        rows = list(csv.DictReader(read_text(path).splitlines()))
    except (RepriError, csv.Error) as error:
        raise RepriError(f"{folder} is not a run of `repri train`: {error}.") from None
    if not rows or not {"epoch", "loss", "base_miou"} <= rows[0].keys():
        raise RepriError(f"{path} is not a log of `repri train`.")
    _check_rows(rows, path)
    if not rows[0]["loss"]:
        raise RepriError(f"{folder} was computed in one pass (a discriminant), so there is no curve to draw.")
    figure = new_figure(7, 2.6)
    left, right = figure.subplots(1, 2)
    left.plot([int(row["epoch"]) for row in rows], [float(row["loss"]) for row in rows], "o-", markersize=3)
    labelled = any(row["base_miou"] for row in rows)
    key, measured = (
        ("base_miou", "mIoU of the base classes") if labelled else ("teacher_cosine", "cosine to the teacher")
    )
    scored = [row for row in rows if row.get(key)]
    right.plot([int(row["epoch"]) for row in scored], [float(row[key]) for row in scored], "o-", markersize=3)
    for axes, title in ((left, "training loss"), (right, f"{measured}, validation")):
        axes.set_title(title, fontsize=9)
        axes.set_xlabel("epoch", fontsize=8)
        axes.grid(alpha=0.3)
    with atomic(folder / "log.png") as temporary:
        figure.savefig(temporary)
    return folder / "log.png"


def _check_rows(rows: list[dict[str, Any]], path: Path) -> None:
    """Every value of a log that is drawn must be a number."""
    for number, row in enumerate(rows, 2):
        try:
            int(row["epoch"])
            for name in ("loss", "base_miou", "teacher_cosine"):
                float(row.get(name) or 0)
        except (TypeError, ValueError):
            raise RepriError(f"{path}, line {number}, is not a line of a log of `repri train`.") from None


def new_figure(width: float, height: float) -> Any:
    """An empty figure of a width and a height in inches; the extra ``plot`` has matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtraError("Plots need matplotlib: pip install 'repri[plot]'.") from None
    return Figure(figsize=(width, height), layout="constrained", dpi=110)


def titled(figure: Any, title: str, facts: Mapping[str, Any]) -> Any:
    """The figure with a title, and below it what decided the figure, in as few lines as fit its width."""
    width, lines = 15 * figure.get_figwidth(), [""]
    for part in (f"{name}: {value}" for name, value in facts.items()):
        if lines[-1] and len(lines[-1]) + len(part) > width:
            lines.append("")
        lines[-1] += f"{'; ' if lines[-1] else ''}{part}"
    figure.suptitle("\n".join([title, *lines]), fontsize=8, parse_math=False)
    return figure
