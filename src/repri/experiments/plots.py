"""Figures drawn from result files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from repri.evaluation.results import Comparison
from repri.files import atomic

__all__ = ["plot_comparison"]


def plot_comparison(compared: Sequence[Comparison], path: Path) -> None:
    """mIoU of each result with its 95 % interval, folds as dots."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError("pictures need matplotlib: pip install 'repri[plot]'") from None
    figure = Figure(figsize=(7, 0.9 + 0.45 * len(compared)), layout="constrained", dpi=110)
    axes = figure.subplots()
    for row, item in enumerate(compared):
        found = item.result
        low, high = found["interval"]
        axes.errorbar(
            found["miou"], row, xerr=[[found["miou"] - low], [high - found["miou"]]], fmt="o", color="C0", capsize=3
        )
        folds = [values["miou"] for values in found["per_fold"].values()]
        axes.plot(folds, [row] * len(folds), "|", color="0.6", markersize=9)
    labels = [f"{c.path.stem} ({c.result['method']}, {c.result['shots']}-shot)" for c in compared]
    axes.set_yticks(range(len(compared)), labels, fontsize=8)
    axes.invert_yaxis()
    axes.set_xlabel("mIoU (95 % interval; strokes: folds)", fontsize=8)
    axes.grid(axis="x", alpha=0.3)
    with atomic(path) as temporary:
        figure.savefig(temporary)
