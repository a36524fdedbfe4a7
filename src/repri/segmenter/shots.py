"""Annotated images in any of the known formats as a support."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from repri.data.io.annotations import BACKGROUND, AnnotatedImage, Annotations, Shape
from repri.data.io.formats import read_annotated
from repri.data.io.images import read_image
from repri.runtime.errors import RepriError
from repri.runtime.limits import check_cost

from .inputs import check_names
from .segmenter import Segmenter

__all__ = ["AnnotatedShots", "completed", "read_support"]

WEAK = ("box", "scribble")
"""Kinds of shapes that do not say exactly which pixels show the object."""


class AnnotatedShots(NamedTuple):
    """The annotated images of a support."""

    classes: tuple[str, ...]
    """Names of the classes."""
    paths: list[Path]
    """Files of the images."""
    images: list[np.ndarray]
    """K arrays [H, W, 3] uint8."""
    maps: list[np.ndarray]
    """K arrays [H, W]: soft values of a single class, else 0 … N and 255."""


def read_support(
    path: Path, format: str | None = None, images: Path | None = None, classes: Sequence[str] | None = None
) -> AnnotatedShots:
    """Read annotated images; those without any of the classes are left out.

    Args:
        path: A folder or file of annotations.
        format: Their format; default: it is recognised.
        images: Folder of the images, if they are not beside the annotations.
        classes: Names of the classes; default: all of them.

    Returns:
        The images and their maps.
    """
    annotations = read_annotated(path, format, images)
    names = annotations.classes if classes is None else check_names(classes)
    for name in names:
        if name not in annotations.classes:
            raise RepriError(f"{path} has no class {name!r}; it has {', '.join(annotations.classes)}.")
    shown = [item for item in annotations if any(shape.label in names for shape in item.shapes)]
    used = tuple(name for name in names if any(shape.label == name for item in shown for shape in item.shapes))
    if not used:
        raise RepriError(f"{path}: no object is marked in any image.")
    for item in shown:
        check_cost("REPRI_MAX_SUPPORT", item.height * item.width, str(item.image))
    if len(used) == 1:
        maps = [item.support(used[0]) for item in shown]
    else:
        for item in shown:
            if any(shape.kind == "box" and shape.label in used for shape in item.shapes):
                raise RepriError(
                    f"{path}: {item.image.name} has boxes, which work for one class only: choose it with --classes, "
                    "or make masks of the boxes with `repri annotate`."
                )
        ids = {name: used.index(name) + 1 if name in used else 0 for name in annotations.classes}
        maps = [item.ids(ids) for item in shown]
    return AnnotatedShots(used, [item.image for item in shown], [read_image(item.image) for item in shown], maps)


def completed(annotations: Annotations, segmenter: Segmenter) -> Annotations:
    """Annotations whose boxes and scribbles are replaced by regions.

    Args:
        annotations: The annotated images.
        segmenter: Is fitted to all images of a class and then segments inside the boxes, or beside the strokes.

    Returns:
        The same annotations with masks only.
    """
    items = list(annotations)
    for name in annotations.classes:
        shown = [i for i, item in enumerate(items) if any(shape.label == name for shape in item.shapes)]
        weak = [i for i in shown if any(s.label == name and s.kind in WEAK for s in items[i].shapes)]
        if not weak:
            continue
        images, maps = [read_image(items[i].image) for i in shown], [items[i].support(name) for i in shown]
        fitted = segmenter.fit_maps(images, maps, (name,))
        for i in weak:
            items[i] = _complete(items[i], name, fitted.segment(items[i].image).probability)
    return Annotations(annotations.classes, tuple(items))


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
