"""Annotated pictures in any of the known formats as a support."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from repri.data.io.annotations import BACKGROUND, AnnotatedImage, Annotations, Shape
from repri.data.io.formats import read_annotated
from repri.data.io.images import read_image

from .inputs import check_names
from .segmenter import Segmenter

__all__ = ["Shots", "completed", "read_support"]

WEAK = ("box", "scribble")


class Shots(NamedTuple):
    classes: tuple[str, ...]
    paths: list[Path]
    pictures: list[np.ndarray]
    """[H, W, 3] uint8."""
    maps: list[np.ndarray]
    """[H, W]: soft ones of a single class, else 0 … N and 255."""


def read_support(
    path: Path, format: str | None = None, images: Path | None = None, classes: Sequence[str] | None = None
) -> Shots:
    """Pictures without any of the ``classes`` (default: all) are left out."""
    found = read_annotated(path, format, images)
    names = found.classes if classes is None else check_names(classes)
    for name in names:
        if name not in found.classes:
            raise ValueError(f"{path} has no class {name!r}; it has {', '.join(found.classes)}")
    shown = [item for item in found if any(shape.label in names for shape in item.shapes)]
    used = tuple(name for name in names if any(shape.label == name for item in shown for shape in item.shapes))
    if not used:
        raise ValueError(f"{path}: no object is marked in any picture")
    if len(used) == 1:
        maps = [item.support(used[0]) for item in shown]
    else:
        for item in shown:
            if any(shape.kind == "box" and shape.label in used for shape in item.shapes):
                raise ValueError(
                    f"{path}: {item.image.name} has boxes, which do for a single class only: choose it with --classes, "
                    "or make masks of them with `repri annotate`"
                )
        ids = {name: used.index(name) + 1 if name in used else 0 for name in found.classes}
        maps = [item.ids(ids) for item in shown]
    return Shots(used, [item.image for item in shown], [read_image(item.image) for item in shown], maps)


def completed(found: Annotations, seg: Segmenter) -> Annotations:
    """Boxes and scribbles replaced by what a segmenter that was fitted to all pictures finds: inside the box, or
    beside the strokes."""
    items = list(found)
    for name in found.classes:
        shown = [i for i, item in enumerate(items) if any(shape.label == name for shape in item.shapes)]
        weak = [i for i in shown if any(s.label == name and s.kind in WEAK for s in items[i].shapes)]
        if not weak:
            continue
        seg.fit_maps([read_image(items[i].image) for i in shown], [items[i].support(name) for i in shown], (name,))
        for i in weak:
            items[i] = _complete(items[i], name, seg.segment(items[i].image).probability)
    return Annotations(found.classes, tuple(items))


def _complete(item: AnnotatedImage, name: str, probability: np.ndarray) -> AnnotatedImage:
    marks = [shape for shape in item.shapes if shape.label == name and shape.kind in WEAK]
    size = (item.height, item.width)
    inside = np.zeros(size, bool)
    for shape in marks:
        region = shape.region(*size)
        if shape.kind == "box":
            region &= probability > min(0.5, float(np.median(probability[region])))
        inside |= region
    if any(shape.kind == "scribble" for shape in marks):
        inside |= (probability > 0.5) & (item.support(name) != 0)
    shapes: list[Shape] = []  # the region takes the place of the first mark; what was drawn later stays on top
    for shape in item.shapes:
        if shape is marks[0]:
            shapes.append(Shape(name, "mask", mask=lambda: inside))
        elif shape not in marks and not (shape.kind == "scribble" and shape.label in BACKGROUND):
            shapes.append(shape)
    return AnnotatedImage(item.image, *size, tuple(shapes))
