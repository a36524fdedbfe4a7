"""The segmentation of one object of a COCO file: polygons or run lengths, drawn and encoded."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from repri.runtime.errors import RepriError
from repri.runtime.reading import short

from .outlines import check_outline

__all__ = ["Patch", "area", "decode", "decode_patch", "encode"]


def decode(segmentation: Any, height: int, width: int) -> np.ndarray:
    """Draw the ``segmentation`` of one object.

    Args:
        segmentation: A list of polygons, or RLE, compressed or not.
        height: Height of the image.
        width: Width of the image.

    Returns:
        bool [H, W].

    Example:
        >>> decode({"size": [2, 3], "counts": [2, 3, 1]}, 2, 3).astype(int).tolist()
        [[0, 1, 1], [0, 1, 0]]
    """
    patch, out = decode_patch(segmentation, height, width), np.zeros((height, width), bool)
    patch.of(out)[...] = patch.region
    return out


class Patch(NamedTuple):
    """The part of an image around one object. Thousands of objects of a large image need little memory."""

    top: int
    left: int
    region: np.ndarray
    """bool [h, w]."""

    def of(self, image: np.ndarray) -> np.ndarray:
        """The view of an array [H, W] in which the patch lies."""
        height, width = self.region.shape
        return image[self.top : self.top + height, self.left : self.left + width]


def decode_patch(segmentation: Any, height: int, width: int) -> Patch:
    """Draw the ``segmentation`` of one object on the part of the image around it.

    Args:
        segmentation: A list of polygons, or RLE, compressed or not.
        height: Height of the image.
        width: Width of the image.

    Returns:
        The patch.

    Example:
        >>> decode_patch([[2, 2, 4, 2, 4, 4, 2, 4]], 100, 100).region.shape
        (4, 4)
    """
    if isinstance(segmentation, list):
        return _drawn(_polygons(segmentation, height, width), height, width)
    runs = np.array(_checked_runs(segmentation, height, width), np.int64)
    inside, ends = np.arange(len(runs)) % 2 == 1, runs.cumsum()
    used = np.flatnonzero(inside & (runs > 0))
    if not len(used):
        return Patch(0, 0, np.zeros((0, 0), bool))
    left, right = int((ends - runs)[used[0]]) // height, int(ends[used[-1]] - 1) // height + 1
    ends = np.clip(ends, left * height, right * height)
    runs = np.diff(ends, prepend=left * height)
    return Patch(0, left, np.repeat(inside, runs).reshape(right - left, height).T)


def area(segmentation: Any, height: int, width: int) -> int:
    """Count the pixels of one object without drawing it; mistakes in it are errors, as in :func:`decode`.

    Args:
        segmentation: A list of polygons, or RLE, compressed or not.
        height: Height of the image.
        width: Width of the image.

    Returns:
        The number of pixels.

    Example:
        >>> area({"size": [2, 3], "counts": [2, 3, 1]}, 2, 3)
        3
    """
    if isinstance(segmentation, list):
        return int(_drawn(_polygons(segmentation, height, width), height, width).region.sum())
    return sum(_checked_runs(segmentation, height, width)[1::2])


def _polygons(segmentation: list[Any], height: int, width: int) -> list[list[float]]:
    """Polygons x, y, x, y, … of at least three points; mistakes in them are errors."""
    try:
        polygons = [[float(value) for value in polygon] for polygon in segmentation]
    except (TypeError, ValueError, OverflowError):
        raise RepriError(f"a segmentation is neither polygons nor RLE: {POLYGONS}, got {short(segmentation)}") from None
    polygons = [polygon for polygon in polygons if len(polygon) >= 6]
    for polygon in polygons:
        if len(polygon) % 2:
            raise RepriError(f"a polygon has {len(polygon)} values, which are not pairs of x and y")
        check_outline(polygon, height, width)
    return polygons


SMALL = 2**20
"""Pixels of an image up to which polygons are drawn on the whole of it."""


def _drawn(polygons: list[list[float]], height: int, width: int) -> Patch:
    """Polygons that are filled as pycocotools does it, on the part of the image that they reach."""
    from pycocotools import mask as rle

    places = np.array([value for polygon in polygons for value in polygon]).reshape(-1, 2)
    if not len(places):
        return Patch(0, 0, np.zeros((0, 0), bool))
    left, top = np.clip(np.floor(places.min(0)) - 1, 0, None).astype(int).tolist()
    right, bottom = np.minimum(np.ceil(places.max(0)) + 1, (width, height)).astype(int).tolist()
    if right <= left or bottom <= top:
        return Patch(0, 0, np.zeros((0, 0), bool))
    if height * width <= SMALL:  # to the pixel what others draw, also where a line meets a corner of a pixel
        whole = rle.decode(rle.merge(rle.frPyObjects(polygons, height, width)))
        return Patch(top, left, whole[top:bottom, left:right].astype(bool))
    moved = [(np.array(polygon).reshape(-1, 2) - (left, top)).flatten().tolist() for polygon in polygons]
    code = rle.merge(rle.frPyObjects(moved, bottom - top, right - left))
    return Patch(top, left, rle.decode(code).astype(bool))


def _checked_runs(segmentation: Any, height: int, width: int) -> list[int]:
    """The run lengths of an RLE, which cover the image exactly."""
    try:
        counts, size = segmentation["counts"], list(segmentation["size"])
        runs = counts if isinstance(counts, list) else _runs(counts)
    except RepriError:
        raise
    except (KeyError, TypeError, ValueError, IndexError):
        raise RepriError(f"a segmentation is neither polygons nor RLE: {RLE}, got {short(segmentation)}") from None
    if size != [height, width]:
        its = "×".join(short(side) for side in size[1::-1])
        raise RepriError(f"its RLE is of a {its} image, this one is {width}×{height}")
    if not all(type(run) is int and run >= 0 for run in runs) or sum(runs) != height * width:
        raise RepriError(f"its RLE's runs do not add up to the {height * width} pixels of the image")
    return runs


POLYGONS = "polygons are lists of numbers x, y, x, y, …"
RLE = "RLE has a size and counts"
MOST_BITS = 60
"""Bits of a run length; an image has fewer pixels than they can count."""


def _runs(code: str | bytes) -> list[int]:
    """Decode the run lengths of COCO's compressed RLE.

    A character holds five bits of a number, and its sixth bit says that more follow. From the fourth run on, the number
    is the difference to the run before the last.
    """
    text = code.decode("ascii") if isinstance(code, bytes) else code
    runs: list[int] = []
    value = shift = 0
    for character in text:
        bits = ord(character) - 48
        value |= (bits & 31) << shift
        shift += 5
        if not 0 <= bits < 64 or shift > MOST_BITS:
            raise RepriError("its counts are not COCO's compressed RLE")
        if not bits & 32:
            if bits & 16:
                value -= 1 << shift
            runs.append(value + (runs[-2] if len(runs) > 2 else 0))
            value = shift = 0
    return runs


def encode(region: np.ndarray) -> dict[str, Any]:
    """Encode a region as COCO's compressed RLE.

    Args:
        region: bool [H, W].

    Returns:
        ``size`` and ``counts``.

    Example:
        >>> region = np.array([[0, 1, 1], [0, 1, 0]], bool)
        >>> np.array_equal(decode(encode(region), 2, 3), region)
        True
    """
    from pycocotools import mask as rle

    code = rle.encode(np.asfortranarray(region.astype(np.uint8)))
    return {"size": [int(side) for side in code["size"]], "counts": code["counts"].decode("ascii")}
