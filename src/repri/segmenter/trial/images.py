"""The images of a trial: the learning curve, and sheets of the best and the worst queries."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from repri.data.io.images import read_image
from repri.data.io.masks import IGNORE
from repri.runtime.draw import hue_map, outline, overlay, stack
from repri.runtime.files import atomic

from .run import FolderResult, ScoredDraw

__all__ = ["best_and_worst", "draw_curve", "sheet"]

ROWS, TILE, GAP, LINE = 4, 320, 8, 26
"""Images on a sheet; the longest side of an image, the gap between two, and the height of a label, in pixels."""
COLOURS = {n: (r, g, b) for n, (r, g, b) in enumerate(hue_map().tolist()) if 0 < n < IGNORE}
"""Id of a class → its colour."""


def draw_curve(results: Sequence[FolderResult], path: Path) -> None:
    """Draw the IoU by shots with its interval: a panel for each folder, and a line for each method.

    Args:
        results: The folders and their outcomes.
        path: The PNG file to write. Without matplotlib there is an ImportError.
    """
    from matplotlib.figure import Figure as Canvas

    columns = min(3, len(results))
    rows = math.ceil(len(results) / columns)
    canvas = Canvas(figsize=(max(4.5, 3.4 * columns), 3.2 * rows), layout="constrained", dpi=110)
    panels = canvas.subplots(rows, columns, squeeze=False).ravel()
    for axes, result in zip(panels, results, strict=False):
        methods = list(dict.fromkeys(outcome.method for outcome in result.outcomes))
        for place, method in enumerate(methods):
            line = [outcome for outcome in result.outcomes if outcome.method == method]
            middle = np.array([100 * outcome.iou for outcome in line])
            ends = 100 * np.array([outcome.figure.interval for outcome in line]).T
            sides = np.nan_to_num(np.abs(ends - middle))
            x = np.array([outcome.shots for outcome in line]) * 1.03 ** (place - (len(methods) - 1) / 2)
            axes.errorbar(x, middle, yerr=sides, fmt="o-", markersize=4, capsize=3, label=method)
        shots = sorted({outcome.shots for outcome in result.outcomes})
        axes.set_xscale("log")
        axes.set_xlim(shots[0] / 1.3, shots[-1] * 1.3)
        axes.set_xticks(shots, map(str, shots))
        axes.minorticks_off()
        axes.set_ylim(0, 100)
        axes.set_title(result.label.replace("$", r"\$"), fontsize=9)
        axes.set_xlabel("shots", fontsize=8)
        axes.set_ylabel("IoU in percent (95 % interval)", fontsize=8)
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8)
    for axes in panels[len(results) :]:
        axes.set_axis_off()
    with atomic(path) as temporary:
        canvas.savefig(temporary)


def best_and_worst(result: FolderResult) -> dict[str, np.ndarray]:
    """Draw the best and the worst queries of the outcome that has kept its masks.

    Args:
        result: A folder and its outcomes.

    Returns:
        ``best`` and ``worst`` → the sheet of these queries, on which an image is once. The mapping is empty if no masks
        were kept.
    """
    kept = next((o for o in result.outcomes if any(scored.masks for scored in o.draws)), None)
    if kept is None:
        return {}
    by_image: dict[int, tuple[float, ScoredDraw, int]] = {}
    for scored in kept.draws:
        for row, (place, iou) in enumerate(zip(scored.draw.queries, scored.query_ious.tolist(), strict=True)):
            if not math.isnan(iou):
                by_image.setdefault(place, (iou, scored, row))
    order = sorted(by_image, key=lambda place: -by_image[place][0])
    if not order:
        return {}
    best, worst = max(1, (len(order) + 1) // 2), max(1, len(order) // 2)
    chosen = {"best": order[: min(ROWS, best)], "worst": order[::-1][: min(ROWS, worst)]}

    def row(place: int) -> tuple[str, np.ndarray, np.ndarray, np.ndarray]:
        iou, scored, query = by_image[place]
        item = result.folder.items[place]
        text = f"{item.image.name}   IoU {iou:.2f}"
        return text, read_image(item.image), result.folder.mask(place), scored.masks[query]

    return {kind: sheet([row(place) for place in places]) for kind, places in chosen.items()}


def sheet(rows: Sequence[tuple[str, np.ndarray, np.ndarray, np.ndarray]]) -> np.ndarray:
    """Draw queries under each other: on the left the outline of the true mask, on the right the predicted mask.

    Args:
        rows: For each query its label, its image [H, W, 3], its true mask [H, W], and its predicted mask of any size.

    Returns:
        The sheet [height, width, 3] uint8.
    """
    drawn = [_label("left: outline of the true mask      right: predicted mask")]
    for text, image, truth, mask in rows:
        scale = min(TILE / max(truth.shape), 1)
        size = (max(1, round(scale * truth.shape[1])), max(1, round(scale * truth.shape[0])))
        small = np.asarray(Image.fromarray(image).resize(size, Image.Resampling.BOX))
        true, predicted = (np.asarray(Image.fromarray(m).resize(size, Image.Resampling.NEAREST)) for m in (truth, mask))
        gap = np.full((size[1], GAP, 3), 255, np.uint8)
        left, right = _outlined(small, true), overlay(small, predicted, COLOURS)
        drawn += [_label(text), np.concatenate([left, gap, right], 1)]
    return stack(drawn)


def _outlined(image: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """[H, W, 3] the image with an inner line of two pixels around each class."""
    shown = image.copy()
    for id in np.unique(mask[(mask != 0) & (mask != IGNORE)]).tolist():
        region = mask == id
        line = outline(region)
        shown[line | outline(region & ~line)] = COLOURS[id % IGNORE or 1]
    return shown


def _label(text: str) -> np.ndarray:
    """[LINE, width, 3] a line of text on white."""
    canvas = Image.new("RGB", (2 * TILE + GAP, LINE), "white")
    ImageDraw.Draw(canvas).text((2, 5), text, fill="black", font=ImageFont.load_default(14))
    return np.asarray(canvas)
