"""What people draw on pictures, whatever the tool: outlines, brushed regions, boxes, scribbles.

Two readings of it: :meth:`AnnotatedImage.ids`, a mask of class ids, and :meth:`AnnotatedImage.support`, the
soft mask of one class that inference takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
from PIL import Image, ImageDraw

from repri.data.datasets.folds import numbered

from .images import IGNORE

__all__ = ["BACKGROUND", "IGNORED", "AnnotatedImage", "Annotations", "Shape", "box_prior", "polygons_of", "shapes_of"]

BACKGROUND = frozenset({"background", "__background__", "_background_"})
"""Labels that mean no object."""
IGNORED = frozenset({"ignore", "__ignore__", "void", "ambiguous", "crowd"})
"""Labels that mean neither."""
IGNORE_LABEL = "ignore"

Points = tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Shape:
    """One thing that was drawn."""

    label: str
    kind: Literal["polygon", "mask", "box", "scribble"]
    points: Points = ()
    """(x, y): the outline; two opposite corners of a box; the path of a scribble."""
    mask: Callable[[], np.ndarray] | None = field(default=None, compare=False)
    """Draws the bool [H, W] of a brushed region when asked: thousands of them do not fit the memory."""
    width: float = 5.0
    """Of a scribble's stroke, in pixels."""

    def region(self, height: int, width: int) -> np.ndarray:
        """bool [H, W]: what it covers, its border included."""
        if self.mask is not None:
            return self.mask()
        canvas = Image.new("1", (width, height))
        pen = ImageDraw.Draw(canvas)
        if self.kind == "box":
            (left, right), (top, bottom) = (sorted(values) for values in zip(*self.points, strict=True))
            if right > 0 and bottom > 0:
                pen.rectangle((left, top, max(left, right - 1), max(top, bottom - 1)), fill=1)
        elif self.kind == "scribble" and self.points:
            stroke = max(1, round(self.width))
            pen.line(self.points, fill=1, width=stroke, joint="curve")
            for x, y in self.points:
                pen.ellipse((x - stroke / 2, y - stroke / 2, x + stroke / 2, y + stroke / 2), fill=1)
        elif len(self.points) > 2:
            pen.polygon(self.points, fill=1, outline=1)
        return np.array(canvas)


@dataclass(frozen=True)
class AnnotatedImage:
    """A picture and what was drawn on it, later shapes over earlier ones."""

    image: Path
    height: int
    width: int
    shapes: tuple[Shape, ...]

    def ids(self, classes: Mapping[str, int]) -> np.ndarray:
        """[H, W] class ids; where something was scribbled, all that was not is 255."""
        wide = max(classes.values(), default=0) > 255
        out = np.full((self.height, self.width), self._rest(), np.uint16 if wide else np.uint8)
        for shape in self.shapes:
            out[shape.region(self.height, self.width)] = _id(shape.label, classes)
        return out

    def support(self, label: str) -> np.ndarray:
        """[H, W] float32: how surely each pixel shows the class, 0 to 1; 255 where nobody said.

        A box is sure of its outside only: inside it holds the share of objects that cover that place of
        their box (:func:`box_prior`).
        """
        out = np.full((self.height, self.width), self._rest(), np.float32)
        for shape in self.shapes:
            region = shape.region(self.height, self.width)
            if shape.label in IGNORED:
                out[region] = IGNORE
            elif shape.label != label:
                if shape.kind != "box":  # of another object's box, who knows which part is it
                    out[region] = 0
            elif shape.kind == "box":
                known = np.where(out == IGNORE, 0, out)
                out = np.where(region, np.maximum(known, self._prior(shape)), out)
            else:
                out[region] = 1
        return out

    def visible(self) -> tuple[Shape, ...]:
        """The same picture as regions that do not overlap, boxes as they are: what formats without an order keep."""
        owner = np.full((self.height, self.width), -1, np.int32)
        for i, shape in enumerate(self.shapes):
            if shape.kind != "box":
                owner[shape.region(self.height, self.width)] = i
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
        return IGNORE if any(shape.kind == "scribble" for shape in self.shapes) else 0

    def _prior(self, box: Shape) -> np.ndarray:
        (left, right), (top, bottom) = (sorted(values) for values in zip(*box.points, strict=True))
        x = (np.arange(self.width) + 0.5 - left) / max(right - left, 1) * 2 - 1
        y = (np.arange(self.height) + 0.5 - top) / max(bottom - top, 1) * 2 - 1
        return box_prior(x[None, :], y[:, None]).astype(np.float32)


def box_prior(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """How often an object covers a place of its box, x and y in [−1, 1]; fitted to COCO's objects, mean 0.6."""
    return np.clip(0.875 * (1 - 0.7 * np.abs(x) ** 3) * (1 - 0.7 * np.abs(y) ** 3), 0, 1)


def _id(label: str, classes: Mapping[str, int]) -> int:
    if label in classes:
        return classes[label]
    if label in BACKGROUND:
        return 0
    if label in IGNORED:
        return IGNORE
    raise ValueError(f"the label {label!r} is not one of the classes {', '.join(classes)}")


@dataclass(frozen=True)
class Annotations:
    """Annotated pictures and the names of their classes, in the order of their ids."""

    classes: tuple[str, ...]
    images: tuple[AnnotatedImage, ...]

    @property
    def ids(self) -> dict[str, int]:
        """Name → id."""
        return {name: id for id, name in numbered(self.classes).items()}

    def __iter__(self) -> Iterator[AnnotatedImage]:
        return iter(self.images)

    def __len__(self) -> int:
        return len(self.images)


def class_names(images: Sequence[AnnotatedImage]) -> tuple[str, ...]:
    """The labels that are objects, sorted."""
    return tuple(sorted({shape.label for image in images for shape in image.shapes} - BACKGROUND - IGNORED))


def shapes_of(
    mask: np.ndarray, names: Mapping[int, str], again: Callable[[], np.ndarray] | None = None
) -> tuple[Shape, ...]:
    """A region for each id of a mask; 255 becomes one that is ignored. ``again`` reads the mask anew, later."""
    load = again or (lambda: mask)
    shapes = []
    for id in np.unique(mask).tolist():
        if id != 0:
            name = IGNORE_LABEL if id == IGNORE else names.get(id)
            if name is None:
                raise ValueError(f"the mask holds the id {id}, the classes have {', '.join(map(str, names))}")
            shapes.append(Shape(name, "mask", mask=lambda id=id: load() == id))
    return tuple(shapes)


def polygons_of(mask: np.ndarray, through: Literal["centres", "edges"] = "edges") -> list[Points]:
    """Outlines of a bool mask [H, W], one for each connected part, holes joined to their outline by a cut.

    ``edges``: halfway between inner and outer pixels, whose centres lie at half-integers (COCO);
    ``centres``: through the centres of the border pixels, at integers, for tools that fill outlines
    together with their border (LabelMe).
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
            rings = [_tidy(np.round(ring)) for ring in rings]
        outlines.append(tuple(map(tuple, _joined(rings).round(2).tolist())))
    return outlines


def _tidy(ring: np.ndarray) -> np.ndarray:
    """Without points that repeat the one before."""
    keep = np.ones(len(ring), bool)
    keep[1:] = (ring[1:] != ring[:-1]).any(1)
    return ring[keep]


def _joined(rings: list[np.ndarray]) -> np.ndarray:
    """One ring: each hole is entered and left along the shortest way from the outline so far."""
    outline = rings[0]
    for hole in rings[1:]:
        distance = ((outline[:, None] - hole[None]) ** 2).sum(-1)
        i, j = np.unravel_index(distance.argmin(), distance.shape)
        turned = np.concatenate([hole[j:-1], hole[: j + 1]]) if len(hole) > 1 else hole
        outline = np.concatenate([outline[: i + 1], turned, outline[i:]])
    return outline
