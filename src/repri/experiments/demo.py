"""An object that is annotated once and segmented in other photographs, and what each term of the objective does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from repri.data.datasets.examples import EXAMPLES, Example, ExampleImage
from repri.data.io.masks import IGNORE
from repri.methods import RePRI
from repri.models import load_extractor
from repri.runtime.draw import highlight
from repri.runtime.files import atomic
from repri.segmenter.fitted import Fitted
from repri.segmenter.segmenter import Segmenter

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["COLUMNS", "TITLES", "DemoRow", "draw", "figure_of", "iou", "mean_iou", "run", "sentence"]

COLUMNS: dict[str, tuple[str, ...] | None] = {"prototype": None, "CE": ("h", "kl"), "CE + H": ("kl",), "RePRI": ()}
"""Column → terms of the objective that are left out; None: there is no fit, only the mean features."""
LAST = "RePRI"
"""The column of ``Segmenter()`` as it is."""
TITLES = {
    "annotated": "by hand",
    "query": "to segment",
    "prototype": "no fit",
    "CE": "fit to the support",
    "CE + H": "and to the query",
    "RePRI": "and to its proportion",
    "mask": "of RePRI",
}
"""Column of the figure → what stands below its title."""
SIDE, TALLEST, HEAD, GAP = 2.3, 1.0, 0.8, 0.86
"""Width of a column in inches, height of its images at most, in widths, and space for titles and for a row's text."""
UNLABELLED = (96, 128, 208)
"""Colour of the pixels without a label."""


@dataclass(frozen=True, eq=False)
class DemoRow:
    """One query, segmented in each way."""

    example: Example
    support: ExampleImage
    query: ExampleImage
    maps: dict[str, np.ndarray]
    """Column → probability of the object [H, W]."""
    iou: dict[str, float]
    """Column → IoU of the object."""
    textures: float
    """Weight of the expert on textures that the support has chosen; prototypes are of the expert on objects alone."""


def run(examples: Sequence[Example] = tuple(EXAMPLES.values())) -> Iterator[DemoRow]:
    """Segment the queries of examples with ``Segmenter()``, with the same segmenter without some terms, and by
    prototypes.

    Args:
        examples: The examples.

    Yields:
        A row for each query, as soon as it is there.
    """
    extractor = load_extractor("default")
    for example in examples:
        (support,) = example.support()
        fitted = Segmenter(extractor).fit([support.image], [support.mask])
        plain = Segmenter(extractor, method="prototype").fit([support.image], [support.mask])
        ways = {name: plain if terms is None else _without(fitted, terms) for name, terms in COLUMNS.items()}
        for query in example.queries():
            results = {name: way.segment(query.image) for name, way in ways.items()}
            maps = {name: result.probability for name, result in results.items()}
            scores = {name: iou(result.mask == 1, query.mask) for name, result in results.items()}
            yield DemoRow(example, support, query, maps, scores, fitted.choice.weight)


def _without(fitted: Fitted, terms: Sequence[str]) -> Fitted:
    """The same segmenter, with the same experts, without some terms of the objective."""
    method, textures = fitted.classifier.method, fitted.textures
    if not terms or not isinstance(method, RePRI):
        return fitted
    changed = RePRI(method.name, method.config.without(*terms))
    if textures is not None:
        textures = replace(textures, config=textures.config.without(*terms))
    return replace(fitted, classifier=replace(fitted.classifier, method=changed), textures=textures)


def iou(region: np.ndarray, mask: np.ndarray) -> float:
    """IoU of a region and the object of a mask, among the pixels that have a label.

    Example:
        >>> iou(np.array([True, True, False, True]), np.array([1, 0, 1, 255]))
        0.3333333333333333
    """
    known, truth = mask != IGNORE, mask == 1
    union = ((region | truth) & known).sum()
    return float((region & truth & known).sum() / union) if union else 1.0


def mean_iou(rows: Sequence[DemoRow]) -> dict[str, float]:
    """Column → mean IoU over the queries."""
    return {name: sum(row.iou[name] for row in rows) / len(rows) for name in COLUMNS}


def sentence(row: DemoRow) -> str:
    """What was measured on a query, in one sentence: from prototypes to RePRI."""
    first, last = (round(100 * row.iou[name]) for name in ("prototype", LAST))
    if row.textures:
        effect = "the fit and textures help" if last > first else "the fit and textures do not help"
    else:
        effect = "the fit helps" if last > first else "the fit does not help" if last < first else "no difference"
    return f"IoU {first} → {last}: {effect}."


def draw(rows: Sequence[DemoRow], path: Path) -> None:
    """Draw the queries one below the other: the annotated image, the query, the probabilities and the mask.

    Args:
        rows: The queries.
        path: PNG file to write.
    """
    figure = figure_of(rows)
    with atomic(path) as temporary:
        figure.savefig(temporary)


def figure_of(rows: Sequence[DemoRow]) -> Figure:
    """The figure that :func:`draw` writes; its axes are labelled with the columns' names."""
    from matplotlib.figure import Figure

    heights = [SIDE * min(TALLEST, row.query.mask.shape[0] / row.query.mask.shape[1]) for row in rows]
    width, height = SIDE * len(TITLES), sum(heights) + GAP * len(rows) + HEAD
    figure = Figure(figsize=(width, height), dpi=100)

    def write(x: float, y: float, text: str, size: int, **style: Any) -> None:  # inches from the left and from the top
        figure.text(x / width, 1 - y / height, text, fontsize=size, va="top", **style)

    for k, (title, note) in enumerate(TITLES.items()):
        write((k + 0.5) * SIDE, 0.08, title, 18, ha="center", weight="bold")
        write((k + 0.5) * SIDE, 0.40, note, 13, ha="center", color="dimgrey")
    top = HEAD
    for row, tall in zip(rows, heights, strict=True):
        write(0.02 * SIDE, top, row.example.name.capitalize(), 16, weight="bold")
        write(0.46 * SIDE, top, f"{row.example.story} {sentence(row)}", 15)
        top += 0.36
        for k, (title, shown) in enumerate(zip(TITLES, _images_of(row), strict=True)):
            box = ((k + 0.02) * SIDE / width, 1 - (top + tall) / height, 0.96 * SIDE / width, tall / height)
            axis = figure.add_axes(box, label=title)
            axis.imshow(shown, vmin=0, vmax=1, cmap="viridis")
            axis.set_axis_off()
            score = row.iou[LAST] if title == "mask" else row.iou.get(title)
            if score is not None:
                style = {"weight": "bold"} if title == "mask" else {}
                write((k + 0.5) * SIDE, top + tall + 0.05, f"IoU {100 * score:.0f}", 15, ha="center", **style)
        top += tall + GAP - 0.36
    return figure


def _images_of(row: DemoRow) -> list[np.ndarray]:
    """The images of a row, in the order of the columns."""
    annotated = highlight(row.support.image, row.support.mask == 1)
    unlabelled = row.support.mask == IGNORE
    annotated[unlabelled] = (0.5 * row.support.image[unlabelled] + 0.5 * np.array(UNLABELLED)).astype(np.uint8)
    return [annotated, row.query.image, *row.maps.values(), highlight(row.query.image, row.maps[LAST] > 0.5)]
