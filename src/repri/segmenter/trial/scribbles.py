"""Simulated scribbles: brush strokes that lie inside the regions of a mask, as a person would draw them."""

from __future__ import annotations

import math

import numpy as np
from PIL import Image, ImageFilter

from repri.data.io.masks import IGNORE

__all__ = ["scribble"]

STROKE = 1 / 6
"""Longest stroke, as a fraction of the image's longer side."""
MOST_STROKES = 1000
"""Number of strokes after which a region counts as marked, however few of its pixels are."""


def scribble(mask: np.ndarray, seed: int | tuple[int, ...], fraction: float = 0.02) -> np.ndarray:
    """Draw a few brush strokes inside each region of a mask, the background included.

    Args:
        mask: Class ids [H, W]: 0 background, 1 … N classes, 255 no label.
        seed: Seed of the strokes; the same seed draws the same strokes.
        fraction: Fraction of the pixels of each region that is marked, about; at least one pixel is.

    Returns:
        [H, W] in the type of the mask: the id where a stroke lies, 255 elsewhere.

    Example:
        >>> mask = np.zeros((100, 100), np.uint8)
        >>> mask[20:80, 20:80] = 1
        >>> marks = scribble(mask, seed=0)
        >>> set(mask[marks == 1].tolist()), set(mask[marks == 0].tolist()), bool((marks == 255).mean() > 0.9)
        ({1}, {0}, True)
    """
    rng = np.random.default_rng(seed)
    out = np.full(mask.shape, IGNORE, mask.dtype)
    for id in np.unique(mask[mask != IGNORE]).tolist():
        out[_strokes(mask == id, fraction, rng)] = id
    return out


def _strokes(region: np.ndarray, fraction: float, rng: np.random.Generator) -> np.ndarray:
    """bool [H, W]: strokes that begin far from the border of the region and never leave it."""
    side = max(region.shape)
    target = max(1, round(fraction * region.sum()))
    radius = max(0, min(round(side / 200), int(math.sqrt(target / math.pi) - 0.5)))
    inner = _eroded(region, radius + 1)
    inner = inner if inner.any() else region
    rows, columns = np.nonzero(inner)
    marked = np.zeros(region.shape, bool)
    for _ in range(MOST_STROKES):
        missing = target - int(marked.sum())
        if missing <= 0:
            break
        start = int(rng.integers(len(rows)))
        length = min(STROKE * side, missing / (2 * radius + 1))
        path = _walk(float(columns[start]), float(rows[start]), length, inner, rng)
        marked |= _brushed(path, radius, region.shape) & region
    return marked


def _walk(
    x: float, y: float, length: float, inner: np.ndarray, rng: np.random.Generator, step: float = 3.0
) -> list[tuple[float, float]]:
    """A path of gentle turns from (x, y) that stops at the end of its length or where it would leave ``inner``."""
    path, direction = [(x, y)], rng.uniform(0, 2 * math.pi)
    for _ in range(int(length / step)):
        direction += rng.normal(0, 0.3)
        x, y = x + step * math.cos(direction), y + step * math.sin(direction)
        row, column = round(y), round(x)
        if not (0 <= row < inner.shape[0] and 0 <= column < inner.shape[1] and inner[row, column]):
            break
        path.append((x, y))
    return path


def _brushed(path: list[tuple[float, float]], radius: int, shape: tuple[int, ...]) -> np.ndarray:
    """bool [H, W]: a path that is drawn with a round brush."""
    marked = np.zeros(shape, bool)
    across = np.arange(-radius, radius + 1)
    disc = [(dx, dy) for dx in across for dy in across if dx * dx + dy * dy <= radius * radius]
    (x, y), step = np.array(path).T, np.arange(len(path))
    fine = np.linspace(0, len(path) - 1, max(1, 6 * (len(path) - 1)))
    columns, rows = (np.interp(fine, step, values).round().astype(int) for values in (x, y))
    for dx, dy in disc:
        inside = (columns + dx >= 0) & (columns + dx < shape[1]) & (rows + dy >= 0) & (rows + dy < shape[0])
        marked[rows[inside] + dy, columns[inside] + dx] = True
    return marked


def _eroded(region: np.ndarray, radius: int) -> np.ndarray:
    """bool [H, W]: the pixels around which a whole square of the region lies."""
    return np.asarray(Image.fromarray(region.astype(np.uint8)).filter(ImageFilter.MinFilter(2 * radius + 1))) > 0
