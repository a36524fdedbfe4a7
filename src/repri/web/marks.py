"""What a person draws on an image, and the labels of pixels that it means."""

from __future__ import annotations

import re
from typing import Annotated, Literal

import numpy as np
from PIL import Image, ImageDraw
from pydantic import BaseModel, ConfigDict, Field, model_validator

from repri.data.io.masks import IGNORE
from repri.data.io.segmentations import decode, encode

__all__ = ["Annotation", "Mark", "implied", "label_map", "region_mark"]

RING = 0.02
"""Width of the edge that counts as background, as a fraction of the longer side."""
MOST = 4e9
"""Pixels that may be visited when the marks of one image are drawn."""
CODE, LONG = re.compile("[0-o]*"), re.compile("[P-o]{8}")
"""Characters of COCO's run lengths, and a number that is longer than any of them."""
Coordinate = Annotated[float, Field(ge=-100_000, le=100_000, allow_inf_nan=False)]


class Mark(BaseModel):
    """One stroke or shape. Coordinates are pixels of the upright image; (0, 0) is its upper left corner."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    kind: Literal["brush", "polygon", "box", "region"]
    label: Annotated[int, Field(ge=0, le=IGNORE)]
    """0 background, 1 … N the classes, 255 erases."""
    points: Annotated[list[tuple[Coordinate, Coordinate]], Field(max_length=20_000)] = []
    """The path of a brush, the corners of a polygon, or two opposite corners of a box."""
    width: Annotated[float, Field(ge=1, le=1_000)] = 1.0
    """Width of the brush in pixels."""
    counts: Annotated[str, Field(max_length=5_000_000)] = ""
    """A region: run lengths as COCO writes them, of an array with the image's height and width."""

    @model_validator(mode="after")
    def _has_points(self) -> Mark:
        least = {"brush": 1, "polygon": 3, "box": 2, "region": 0}[self.kind]
        if len(self.points) < least or (self.kind == "box" and len(self.points) != 2):
            raise ValueError(f"a {self.kind} has {'two' if self.kind == 'box' else f'at least {least}'} points")
        if (self.kind == "region") != bool(self.counts):
            raise ValueError("counts belong to a region, and a region needs them")
        if not CODE.fullmatch(self.counts) or LONG.search(self.counts):
            raise ValueError("counts are not run lengths as COCO writes them")
        return self

    @property
    def cost(self) -> float:
        """Pixels that are visited when the mark is drawn, about."""
        return len(self.points) * self.width**2 + len(self.counts)

    def draw(self, canvas: Image.Image, label: int) -> None:
        """Draw the mark on a canvas "L" of the image's size."""
        pen = ImageDraw.Draw(canvas)
        points = [(float(np.floor(x)), float(np.floor(y))) for x, y in self.points]
        if self.kind == "region":
            size = [canvas.height, canvas.width]
            inside = decode({"size": size, "counts": self.counts}, *size)
            canvas.paste(label, mask=Image.fromarray(inside.astype(np.uint8) * 255))
        elif self.kind == "box":
            (left, right), (top, bottom) = (sorted(values) for values in zip(*self.points, strict=True))
            corner = (max(round(left), round(right) - 1), max(round(top), round(bottom) - 1))
            pen.rectangle((round(left), round(top), *corner), fill=label)
        elif self.kind == "polygon":
            pen.polygon(points, fill=label, outline=label)
        else:
            stroke = max(1, round(self.width))
            pen.line(points, fill=label, width=stroke)
            pen.point(points, fill=label)
            reach = (stroke - 1) / 2
            for x, y in points:
                pen.ellipse((x - reach, y - reach, x + reach, y + reach), fill=label)


class Annotation(BaseModel):
    """Everything that was drawn on one image."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    marks: Annotated[list[Mark], Field(max_length=5_000)] = []
    """Later marks lie over earlier ones."""
    complete: bool = False
    """Whether all pixels without a mark are background."""
    revision: Annotated[int, Field(ge=0, le=2**31)] = 0
    """Grows with every change; a change must name the revision that it changes."""

    @model_validator(mode="after")
    def _can_be_drawn(self) -> Annotation:
        if sum(mark.cost for mark in self.marks) > MOST:
            raise ValueError("the marks of one image have too many points: draw fewer or thinner ones")
        return self

    @property
    def empty(self) -> bool:
        """Whether nothing is said about the image; one that is complete without a mark shows no object."""
        return not self.marks and not self.complete


def label_map(annotation: Annotation, height: int, width: int) -> np.ndarray:
    """Draw the marks of an image.

    Args:
        annotation: The marks.
        height: Height of the image.
        width: Width of the image.

    Returns:
        [H, W] uint8: 0 background, 1 … N the classes, 255 no label.

    Example:
        >>> box = Mark(kind="box", label=1, points=[(1, 0), (3, 1)])
        >>> label_map(Annotation(marks=[box]), 2, 4).tolist()
        [[255, 1, 1, 255], [255, 255, 255, 255]]
    """
    rest = 0 if annotation.complete else IGNORE
    canvas = Image.new("L", (width, height), rest)
    for mark in annotation.marks:
        mark.draw(canvas, rest if mark.label == IGNORE else mark.label)
    return np.array(canvas)


def implied(labels: np.ndarray) -> np.ndarray:
    """Labels with some background, where a person has marked only objects.

    Nobody begins with the background, but a classifier that has seen only objects takes everything for an object. So
    the edge of the image counts as background until the image has a background mark of its own.

    Args:
        labels: [H, W] 0 background, 1 … N the classes, 255 no label.

    Returns:
        [H, W] labels that hold 0, unless the objects cover the whole edge.
    """
    if (labels == 0).any():
        return labels
    ring = max(1, round(RING * max(labels.shape)))
    edge = np.ones(labels.shape, bool)
    edge[ring:-ring, ring:-ring] = False
    return np.where(edge & (labels == IGNORE), 0, labels).astype(np.uint8)


def region_mark(region: np.ndarray, label: int) -> Mark:
    """A region of any shape as a mark.

    Args:
        region: bool [H, W].
        label: Its label.

    Returns:
        The mark.
    """
    return Mark(kind="region", label=label, counts=encode(region)["counts"])
