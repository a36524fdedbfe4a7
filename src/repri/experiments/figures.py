"""Figures of items, readable in print and without colours: markers and line styles tell the lines apart."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from repri.runtime.files import atomic

from .plots import new_figure, titled
from .report import Findings, mean_of_folds

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["curve_figure", "delta_figure", "table_figure", "write_figure"]

STYLES = (
    {"color": "#0072B2", "marker": "o", "linestyle": "-"},
    {"color": "#D55E00", "marker": "s", "linestyle": "--"},
    {"color": "#009E73", "marker": "^", "linestyle": ":"},
    {"color": "#000000", "marker": "D", "linestyle": "-."},
)
"""Colours of Okabe and Ito, which the colour-blind tell apart, each with a marker and a line style of its own."""
SUFFIXES = (".png", ".svg")
WIDE = 5.0
"""Value of δ from which its axis is logarithmic above 1."""


def write_figure(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write a figure as NAME.png and NAME.svg; the same figure gives the same bytes.

    Args:
        figure: The figure.
        folder: Folder of the files.
        name: Their name without a suffix.

    Returns:
        The files.
    """
    import matplotlib

    folder.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context({"svg.hashsalt": "repri", "svg.fonttype": "none"}):
        for suffix in SUFFIXES:
            with atomic(folder / f"{name}{suffix}") as temporary:
                figure.savefig(temporary, metadata={"Date": None} if suffix == ".svg" else None)
    return [folder / f"{name}{suffix}" for suffix in SUFFIXES]


def curve_figure(findings: Findings) -> Figure:
    """mIoU against the values of a setting, one line for each number of shots, with 95 % intervals."""
    item = findings.item
    assert item.sweep is not None
    figure = new_figure(5.2, 3.6)
    axes = figure.subplots()
    for shots, style in zip(item.shots, STYLES, strict=False):
        points = []
        for way in findings.ways:
            if folds := findings.of(way, shots):
                value = dict(way.settings)[item.sweep.setting]
                points.append((value, *mean_of_folds([kept.values for kept in folds.values()])))
        x, y, low, high = zip(*points, strict=True)
        label = f"{shots} shot{'s' if shots > 1 else ''}"
        few = len(x) < 20
        axes.plot(x, y, label=label, markersize=5 if few else 3, linewidth=1.4, **style)
        axes.fill_between(x, low, high, color=style["color"], alpha=0.15, linewidth=0)
    axes.set_xlabel(item.sweep.label, fontsize=9)
    axes.set_ylabel("mIoU (band: 95 % interval)", fontsize=9)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=9)
    return titled(figure, findings.item.title, findings.facts)


def delta_figure(findings: Findings) -> Figure:
    """Box plots of δ at the start and after 10 steps: median, quartiles, and 5 and 95 % at the whiskers."""
    ((_, kept),) = findings.results.items()
    error = kept.values["proportion_error"]
    names = (("initial", "at the start"), ("final", "after 10 steps"))
    boxes = []
    for name, label in names:
        low, first, median, third, high = error[f"{name}_quantiles"]
        boxes.append(
            {"label": label, "whislo": low, "q1": first, "med": median, "q3": third, "whishi": high, "fliers": []}
            | {"mean": error[f"{name}_mean"]}
        )
    figure = new_figure(4.2, 3.8)
    axes = figure.subplots()
    median = {"color": "black", "linewidth": 2}
    mean = {"marker": "D", "markerfacecolor": "white", "markeredgecolor": "black", "markersize": 6}
    axes.bxp(boxes, showmeans=True, medianprops=median, meanprops=mean, widths=0.5)
    if max(error[f"{name}_quantiles"][-1] for name, _ in names) > WIDE:
        axes.set_yscale("symlog", linthresh=1)
    axes.axhline(0, color="0.4", linestyle="--", linewidth=1)
    axes.set_ylabel("δ: relative error of the proportion", fontsize=9)
    axes.set_xlabel("line: median, diamond: mean, whiskers: 5 and 95 %", fontsize=8)
    axes.grid(axis="y", alpha=0.3)
    return titled(figure, findings.item.title, findings.facts)


def table_figure(findings: Findings) -> Figure:
    """Means over folds as points with intervals, beside the paper's as crosses: one panel for each number of shots."""
    from .report import table_of

    item = findings.item
    table = table_of(findings)
    per_shots: dict[int, list[tuple[str, Any]]] = {shots: [] for shots in item.shots}
    for label, values in table.rows:
        for column, shots in _columns(item.kind, item.shots, label):
            number = values[column]
            if not isinstance(number, str) and number.ours is not None:
                per_shots[shots].append((label.rsplit(", ", 1)[0] if item.kind == "folds" else label, number))
    rows = max(len(x) for x in per_shots.values())
    figure = new_figure(2.6 * len(item.shots) + 1.4, 1.5 + 0.34 * rows)
    panels = figure.subplots(1, len(item.shots), sharey=True, squeeze=False)[0]
    for axes, (shots, points) in zip(panels, per_shots.items(), strict=True):
        _points(axes, points)
        axes.set_title(f"{shots} shot{'s' if shots > 1 else ''}", fontsize=9)
        axes.set_xlabel("mIoU", fontsize=9)
    panels[0].invert_yaxis()
    fullest = max((axes.get_legend_handles_labels() for axes in panels), key=lambda legend: len(legend[1]))
    figure.legend(*fullest, loc="outside lower center", ncols=2, fontsize=8)
    return titled(figure, findings.item.title, findings.facts)


def _columns(kind: str, shots: Sequence[int], label: str) -> list[tuple[int, int]]:
    """Column and shots of the means in a row."""
    if kind == "folds":
        return [(-1, int(label.rsplit(", ", 1)[1].split()[0]))]
    return list(enumerate(shots))


def _points(axes: Any, points: list[tuple[str, Any]]) -> None:
    """Ours as points with intervals, the paper's as crosses."""
    places = range(len(points))
    ours = [number.ours for _, number in points]
    sides = [[n.ours - n.low for _, n in points], [n.high - n.ours for _, n in points]]
    axes.errorbar(ours, places, xerr=sides, fmt="o", color=STYLES[0]["color"], capsize=3, label="ours, 95 % interval")
    paper = [
        (number.paper, place)
        for place, (_, number) in zip(places, points, strict=True)
        if number.paper and number.comparable
    ]
    if paper:
        x, y = zip(*paper, strict=True)
        axes.plot(x, y, "x", color=STYLES[1]["color"], markersize=7, markeredgewidth=2, label="the paper")
    axes.set_yticks(places, [label for label, _ in points], fontsize=8, parse_math=False)
    axes.grid(axis="x", alpha=0.3)
    axes.margins(y=0.12)
