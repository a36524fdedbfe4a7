"""Shapes that people draw on images, whatever the tool: outlines, brushed regions, boxes, scribbles.

They can be read in two ways: :meth:`AnnotatedImage.ids` is a mask of class ids, and :meth:`AnnotatedImage.support` is
the soft mask of one class that inference takes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
from PIL import Image, ImageDraw

from repri.runtime.errors import RepriError
from repri.runtime.limits import check_cost

from .classes import number_classes
from .images import check_pixels
from .masks import IGNORE, ids_in, mask_type
from .outlines import Points, check_outline

__all__ = [
    "BACKGROUND",
    "IGNORED",
    "IGNORE_LABEL",
    "AnnotatedImage",
    "Annotations",
    "Shape",
    "box_prior",
    "class_names",
    "shapes_of",
]

BACKGROUND = frozenset({"background", "__background__", "_background_"})
"""Labels that mean no object."""
IGNORED = frozenset({"ignore", "__ignore__", "void", "ambiguous", "crowd"})
"""Labels that mean neither an object nor background."""
IGNORE_LABEL = "ignore"
"""The one of them that is written."""


@dataclass(frozen=True)
class Shape:
    """One shape that was drawn on an image."""

    label: str
    kind: Literal["polygon", "mask", "box", "scribble"]
    points: Points = ()
    """(x, y): the outline; two opposite corners of a box; the path of a scribble."""
    mask: Callable[[], np.ndarray] | None = field(default=None, compare=False)
    """Draws the bool [H, W] of a brushed region when it is called: thousands of them do not fit into the memory."""
    width: float = 5.0
    """Width of a scribble's stroke, in pixels."""

    def region(self, height: int, width: int) -> np.ndarray:
        """Draw the shape.

        Args:
            height: Height of the image.
            width: Width of the image.

        Returns:
            bool [H, W]: the pixels that it covers, its border included.
        """
        if self.mask is not None:
            return self.mask()
        rows, columns, inside = self.patch(height, width)
        region = np.zeros((height, width), bool)
        region[rows, columns] = inside
        return region

    def patch(self, height: int, width: int) -> tuple[slice, slice, np.ndarray]:
        """Draw the shape on the part of the image around it, because images may be large and shapes many.

        Args:
            height: Height of the image.
            width: Width of the image.

        Returns:
            The rows and columns of the part, and bool [h, w]: the pixels in it that the shape covers.
        """
        if self.mask is not None:
            return slice(0, height), slice(0, width), self.mask()
        rows, columns = self._around(height, width)
        canvas = Image.new("1", (columns.stop - columns.start, rows.stop - rows.start))
        points = tuple((x - columns.start, y - rows.start) for x, y in self.points)
        _draw(ImageDraw.Draw(canvas), self.kind, points, max(1, round(self.width)))
        return rows, columns, np.array(canvas)

    def _around(self, height: int, width: int) -> tuple[slice, slice]:
        """Rows and columns around the points; they have at least one pixel."""
        if not self.points:
            return slice(0, 1), slice(0, 1)
        reach = 2 + (round(self.width) if self.kind == "scribble" else 0)
        sides = []
        for values, side in zip(list(zip(*self.points, strict=True))[::-1], (height, width), strict=True):
            first = min(max(0, math.floor(min(values)) - reach), side - 1)
            sides.append(slice(first, min(max(first + 1, math.ceil(max(values)) + reach + 1), side)))
        return sides[0], sides[1]

    def box(self) -> tuple[float, float, float, float]:
        """Return left, top, right and bottom of a box, whichever corners were drawn."""
        return _box(self.points)


def _box(points: Points) -> tuple[float, float, float, float]:
    (left, right), (top, bottom) = (sorted(values) for values in zip(*points, strict=True))
    return left, top, right, bottom


def _draw(pen: ImageDraw.ImageDraw, kind: str, points: Points, stroke: int) -> None:
    """Draw a shape with a pen."""
    if kind == "box":
        left, top, right, bottom = _box(points)
        if right > 0 and bottom > 0:
            pen.rectangle((left, top, max(left, right - 1), max(top, bottom - 1)), fill=1)
    elif kind == "scribble" and points:
        pen.line(points, fill=1, width=stroke, joint="curve")
        for x, y in points:
            pen.ellipse((x - stroke / 2, y - stroke / 2, x + stroke / 2, y + stroke / 2), fill=1)
    elif len(points) > 2:
        pen.polygon(points, fill=1, outline=1)


@dataclass(frozen=True)
class AnnotatedImage:
    """An image and the shapes that were drawn on it, later shapes over earlier ones."""

    image: Path
    height: int
    width: int
    shapes: tuple[Shape, ...]

    def __post_init__(self) -> None:
        """No format gets a shape past this check."""
        check_pixels(self.height, self.width, str(self.image))
        for shape in self.shapes:
            if shape.points:
                check_outline(shape.points, self.height, self.width)
            if not 0 <= shape.width <= 2 * max(self.height, self.width) + 100:
                raise RepriError(f"a stroke of {shape.label!r} is {shape.width:g} pixels wide")
        strokes = sum(len(s.points) * max(1.0, s.width) ** 2 for s in self.shapes if s.kind == "scribble")
        check_cost("REPRI_MAX_STROKES", strokes, str(self.image))

    def ids(self, classes: Mapping[str, int]) -> np.ndarray:
        """Draw the shapes as a mask of class ids.

        Args:
            classes: Label → id.

        Returns:
            [H, W] class ids. If the image has scribbles, the pixels that no shape covers are 255, otherwise 0.
        """
        out = np.full((self.height, self.width), self._rest(), mask_type(max(classes.values(), default=0)))
        for shape in self.shapes:
            rows, columns, inside = shape.patch(self.height, self.width)
            out[rows, columns][inside] = _id(shape.label, classes)
        return out

    def support(self, label: str) -> np.ndarray:
        """Draw the shapes as the soft mask of one class.

        A box is sure about its outside only. Each pixel inside it has the fraction of objects that cover this place of
        their box (:func:`box_prior`).

        Args:
            label: The class.

        Returns:
            [H, W] float32: the probability that the pixel shows the class; 255 where nothing was said about it.
        """
        out = np.full((self.height, self.width), self._rest(), np.float32)
        for shape in self.shapes:
            region = shape.region(self.height, self.width)
            if shape.label in IGNORED:
                out[region] = IGNORE
            elif shape.label != label:
                if shape.kind != "box":  # which part of another object's box shows that object is unknown
                    out[region] = 0
            elif shape.kind == "box":
                known = np.where(out == IGNORE, 0, out)
                out = np.where(region, np.maximum(known, self._prior(shape)), out)
            else:
                out[region] = 1
        return out

    def visible(self) -> tuple[Shape, ...]:
        """Cut the shapes so that none covers another, for formats that do not keep an order.

        Returns:
            The visible part of each shape; boxes stay as they are. Pixels that no scribble touches become an ignored
            region.
        """
        owner = np.full((self.height, self.width), -1, np.int32)
        for i, shape in enumerate(self.shapes):
            if shape.kind != "box":
                rows, columns, inside = shape.patch(self.height, self.width)
                owner[rows, columns][inside] = i
        shapes = []
        for i, shape in enumerate(self.shapes):
            if shape.label in BACKGROUND:
                continue
            if shape.kind == "box":
                shapes.append(shape)
            elif (owner == i).any():
                shapes.append(Shape(shape.label, "mask", mask=lambda i=i: owner == i))
        if self._rest() == IGNORE:
            shapes.append(Shape(IGNORE_LABEL, "mask", mask=lambda: owner == -1))
        return tuple(shapes)

    def _rest(self) -> int:
        """The id of pixels that no shape covers."""
        return IGNORE if any(shape.kind == "scribble" for shape in self.shapes) else 0

    def _prior(self, box: Shape) -> np.ndarray:
        """[H, W]: the prior of a box, in the coordinates of the image."""
        left, top, right, bottom = box.box()
        x = (np.arange(self.width) + 0.5 - left) / max(right - left, 1) * 2 - 1
        y = (np.arange(self.height) + 0.5 - top) / max(bottom - top, 1) * 2 - 1
        return box_prior(x[None, :], y[:, None]).astype(np.float32)


def box_prior(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return how often an object covers a place of its box; fitted to the objects of COCO, with a mean of 0.6.

    Args:
        x: Horizontal place in the box, from −1 to 1.
        y: Vertical place in the box, from −1 to 1.

    Returns:
        The fraction of objects, in the shape that ``x`` and ``y`` have together.

    Example:
        >>> float(box_prior(np.array(0.0), np.array(0.0)))
        0.875
    """
    return np.clip(0.875 * (1 - 0.7 * np.abs(x) ** 3) * (1 - 0.7 * np.abs(y) ** 3), 0, 1)


def _id(label: str, classes: Mapping[str, int]) -> int:
    """The id of a label, which may also mean background or ignored."""
    if label in classes:
        return classes[label]
    if label in BACKGROUND:
        return 0
    if label in IGNORED:
        return IGNORE
    raise RepriError(f"the label {label!r} is not one of the classes {', '.join(classes)}")


@dataclass(frozen=True)
class Annotations:
    """Annotated images and the names of their classes, in the order of their ids."""

    classes: tuple[str, ...]
    images: tuple[AnnotatedImage, ...]

    @property
    def ids(self) -> dict[str, int]:
        """Class → id."""
        return {name: id for id, name in number_classes(self.classes).items()}

    def __iter__(self) -> Iterator[AnnotatedImage]:
        return iter(self.images)

    def __len__(self) -> int:
        return len(self.images)


def class_names(images: Sequence[AnnotatedImage]) -> tuple[str, ...]:
    """Return the labels of all images that are classes, sorted."""
    return tuple(sorted({shape.label for image in images for shape in image.shapes} - BACKGROUND - IGNORED))


def shapes_of(
    mask: np.ndarray, names: Mapping[int, str], again: Callable[[], np.ndarray] | None = None
) -> tuple[Shape, ...]:
    """Turn a mask into shapes, one region for each id.

    Args:
        mask: Class ids [H, W]; 255 becomes an ignored region.
        names: Id → class.
        again: Reads the mask again when a region is drawn, so that the mask need not stay in the memory.

    Returns:
        The regions, in the order of their ids.

    Example:
        >>> [shape.label for shape in shapes_of(np.array([[0, 1], [2, 255]]), {1: "cat", 2: "dog"})]
        ['cat', 'dog', 'ignore']
    """
    load = again or (lambda: mask)
    shapes = []
    for id in ids_in(mask):
        if id != 0:
            name = IGNORE_LABEL if id == IGNORE else names.get(id)
            if name is None:
                raise RepriError(f"the mask holds the id {id}, the classes have {', '.join(map(str, names))}")
            shapes.append(Shape(name, "mask", mask=lambda id=id: load() == id))
    return tuple(shapes)
