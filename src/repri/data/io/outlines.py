"""From a region to its outlines as polygons."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Literal

import numpy as np

from repri.runtime.errors import RepriError
from repri.runtime.limits import check_cost

__all__ = ["Points", "check_outline", "circle", "filled", "polygons_of"]

Points = tuple[tuple[float, float], ...]
"""(x, y) of each point."""


REACH = 2
"""Sides of an image, plus :data:`MARGIN` pixels, by which a drawn point may lie outside of it."""
MARGIN = 1000


def check_outline(points: Any, height: int, width: int) -> None:
    """Raise an error unless the points of a shape are finite and lie in or near the image, whatever the format.

    Drawing libraries crash on other points, or take all memory.

    Args:
        points: (x, y) of each point.
        height: Height of the image.
        width: Width of the image.

    Example:
        >>> check_outline([(0, 0), (1e9, 0)], 40, 60)
        Traceback (most recent call last):
        repri.runtime.errors.RepriError: a point lies at (1e+09, 0), far from the image of 60×40 pixels
    """
    try:
        places = np.asarray(points, np.float64).reshape(-1, 2)
    except (TypeError, ValueError, OverflowError) as error:
        raise RepriError(f"a shape has points that are not pairs of numbers ({error})") from None
    reach = REACH * max(height, width) + MARGIN
    outside = ~(np.isfinite(places) & (places >= -reach) & (places <= np.array([width, height]) + reach)).all(1)
    if outside.any():
        x, y = places[outside][0].tolist()
        raise RepriError(f"a point lies at ({x:g}, {y:g}), far from the image of {width}×{height} pixels")
    if len(places) > 1:
        length = float(np.abs(np.diff(places, axis=0)).max(1).sum())
        check_cost("REPRI_MAX_OUTLINE", length, "a shape")


def polygons_of(mask: np.ndarray, through: Literal["centres", "edges"] = "edges") -> list[Points]:
    """Trace the outlines of a region, one for each connected part; holes are joined to their outline by a cut.

    Args:
        mask: bool [H, W].
        through: ``edges``: halfway between inner and outer pixels, where the centres of pixels lie at half-integers, as
            in COCO. ``centres``: through the centres of the border pixels, at integers, for tools that fill outlines
            together with their border, as LabelMe does.

    Returns:
        The points of each outline.

    Example:
        >>> region = np.zeros((4, 4), bool)
        >>> region[1:3, 1:3] = True
        >>> sorted(set(polygons_of(region, "centres")[0]))
        [(1.0, 1.0), (1.0, 2.0), (2.0, 1.0), (2.0, 2.0)]
    """
    from contourpy import FillType, contour_generator

    padded = np.pad(mask, 1).astype(np.float64)
    level = 0.5 if through == "edges" else 0.999
    pieces: Any = contour_generator(z=padded, fill_type=FillType.OuterOffset).filled(level, np.inf)
    shift = -0.5 if through == "edges" else -1.0
    outlines = []
    for points, offsets in zip(*pieces, strict=True):
        rings = [points[a:b] + shift for a, b in pairwise(offsets)]
        if through == "centres":
            rings = [_without_repeats(np.round(ring)) for ring in rings]
        outlines.append(tuple(map(tuple, _joined(rings).round(2).tolist())))
    return outlines


def filled(outline: np.ndarray, height: int, width: int) -> np.ndarray:
    """Fill an outline: the pixels whose centres lie inside, so that the outlines of ``edges`` give their region back.

    Args:
        outline: [n, 2] x and y; the centres of pixels lie at half-integers.
        height: Height of the image.
        width: Width of the image.

    Returns:
        bool [H, W].

    Example:
        >>> region = np.array([[0, 1, 1], [0, 1, 0]], bool)
        >>> (filled(np.array(polygons_of(region)[0]), 2, 3) == region).all()
        np.True_
    """
    start, end = outline, np.roll(outline, -1, 0)
    low, high = np.minimum(start[:, 1], end[:, 1]), np.maximum(start[:, 1], end[:, 1])
    first, last = (np.clip(np.ceil(value - 0.5), 0, height).astype(int) for value in (low, high))
    edge = np.repeat(np.arange(len(outline)), last - first)  # one entry for each row that an edge crosses
    before = np.repeat(np.cumsum(last - first) - (last - first), last - first)
    rows = first[edge] + np.arange(len(edge)) - before
    part = (rows + 0.5 - start[edge, 1]) / (end[edge, 1] - start[edge, 1])
    crossed = start[edge, 0] + part * (end[edge, 0] - start[edge, 0])
    crossings = np.zeros((height, width + 1), np.int32)
    np.add.at(crossings, (rows, np.clip(np.ceil(crossed - 0.5), 0, width).astype(int)), 1)
    return crossings.cumsum(1)[:, :width] % 2 == 1


def circle(centre: tuple[float, float], radii: tuple[float, float], points: int = 64) -> Points:
    """Approximate a circle or an upright ellipse by a polygon.

    Args:
        centre: (x, y).
        radii: Half of its width and of its height.
        points: Number of corners.

    Returns:
        The corners.
    """
    turns = 2 * np.pi * np.arange(points) / points
    return tuple(
        zip(
            (centre[0] + radii[0] * np.cos(turns)).tolist(),
            (centre[1] + radii[1] * np.sin(turns)).tolist(),
            strict=True,
        )
    )


def _without_repeats(ring: np.ndarray) -> np.ndarray:
    """Leave out the points that repeat the one before."""
    keep = np.ones(len(ring), bool)
    keep[1:] = (ring[1:] != ring[:-1]).any(1)
    return ring[keep]


def _joined(rings: list[np.ndarray]) -> np.ndarray:
    """Join rings to one: each hole is entered and left along the shortest way from the outline so far."""
    outline = rings[0]
    for hole in rings[1:]:
        distance = ((outline[:, None] - hole[None]) ** 2).sum(-1)
        i, j = np.unravel_index(distance.argmin(), distance.shape)
        turned = np.concatenate([hole[j:-1], hole[: j + 1]]) if len(hole) > 1 else hole
        outline = np.concatenate([outline[: i + 1], turned, outline[i:]])
    return outline
