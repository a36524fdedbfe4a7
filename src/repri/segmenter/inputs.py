"""Inputs of every usual kind: images, masks, boxes, scribbles, known proportions of the object."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image
from torch import Tensor

from repri.data.io.annotations import AnnotatedImage, Shape
from repri.data.io.classes import class_name
from repri.data.io.images import read_image, to_rgb
from repri.data.io.masks import IGNORE, check_same_size, is_two_level, read_mask
from repri.runtime.errors import RepriError

__all__ = [
    "ImageLike",
    "Known",
    "Proportion",
    "as_image",
    "as_masks",
    "check_names",
    "known_proportion",
    "load_shots",
    "name_of",
]

ImageLike = str | Path | Image.Image | np.ndarray | Tensor
"""A file, a Pillow image, or an array: [H, W, 3] or [H, W], uint8 or in [0, 1]; a tensor may be [3, H, W]."""
Proportion = float | tuple[float, float] | Mapping[str, float]
"""Proportion of the image that the object covers: a number, a range, or a number for each of several classes."""


class Known(NamedTuple):
    """What is known in advance about the objects' proportions."""

    point: tuple[float, ...] | None
    """Proportion of each class."""
    limits: tuple[float, float] | None
    """Lowest and highest proportion of the only class."""
    there: tuple[bool, ...] | None = None
    """Whether the image shows each class."""


def known_proportion(proportion: Proportion | None, classes: tuple[str, ...]) -> Known:
    """The proportions that a user gave, checked."""
    if proportion is None:
        return Known(None, None)
    if isinstance(proportion, Mapping):
        if set(proportion) != set(classes):
            raise RepriError(
                f"proportion must name each of {', '.join(classes)}, got {', '.join(map(str, proportion))}."
            )
        values = [_fraction(proportion[name]) for name in classes]
    elif isinstance(proportion, (tuple, list)):
        if len(proportion) != 2 or not 0 < proportion[0] <= proportion[1] < 1:
            raise RepriError(f"A range of proportions is (low, high) with 0 < low ≤ high < 1, got {tuple(proportion)}.")
        if len(classes) > 1:
            raise RepriError("A range of proportions is for a single class: give one number for each class.")
        return Known(None, (float(proportion[0]), float(proportion[1])))
    else:
        if len(classes) > 1:
            raise RepriError(f"proportion must name each of {', '.join(classes)}: " + '{"name": 0.1, …}')
        values = [_fraction(proportion)]
    if not all(0 < value < 1 for value in values) or sum(values) >= 1:
        raise RepriError(f"A proportion lies between 0 and 1, and their sum is below 1, got {values}.")
    return Known(tuple(values), None)


def _fraction(value: Any) -> float:
    """A proportion as a number, or NaN, which lies nowhere."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return math.nan


def as_image(image: ImageLike) -> np.ndarray:
    """Any kind of image as [H, W, 3] uint8."""
    if isinstance(image, (str, Path)):
        return read_image(image)
    if not isinstance(image, Image.Image):
        image = Image.fromarray(_pixels(image))
    try:
        return to_rgb(image)
    except (OSError, SyntaxError, struct.error) as error:  # opened, but its pixels cannot be read
        raise RepriError(f"A Pillow image cannot be read ({error}): get it again or leave it out.") from None


def _pixels(image: np.ndarray | Tensor) -> np.ndarray:
    """[H, W] or [H, W, 3 or 4], in a form that Pillow takes."""
    values = _values(image)
    if values.ndim == 3 and isinstance(image, Tensor) and values.shape[0] in (1, 3, 4):
        values = values.transpose(1, 2, 0)
    if values.ndim == 3 and values.shape[-1] == 1:
        values = values[..., 0]
    if values.ndim not in (2, 3) or (values.ndim == 3 and values.shape[-1] not in (3, 4)) or values.size == 0:
        raise RepriError(f"An image is an array [H, W, 3] or [H, W], got shape {list(values.shape)}.")
    if values.dtype.kind == "f":
        if not (values.min() >= 0 and values.max() <= 1):
            raise RepriError(f"An image of floats has values in [0, 1], got {values.min():g} … {values.max():g}.")
        values = (values * 255).round().astype(np.uint8)
    if values.dtype == bool:
        values = values.astype(np.uint8) * 255
    if values.dtype != np.uint8 and not (values.dtype == np.uint16 and values.ndim == 2):
        raise RepriError(f"An image is uint8 or float, got {values.dtype}.")
    return np.ascontiguousarray(values)


def _values(array: Any) -> np.ndarray:
    return array.detach().cpu().numpy() if isinstance(array, Tensor) else np.asarray(array)


def as_masks(masks: Sequence[Any], classes: int) -> list[np.ndarray]:
    """Any kinds of masks as arrays [H, W] with 0 … N and 255, or float32 of soft values. Where all of them hold only
    0 and 255, 255 is the object; beside masks of ids, 255 means unlabelled."""
    loaded = [_mask_values(mask) for mask in masks]
    two_level = any(values.max() == IGNORE for values, _ in loaded) and all(
        binary or not values.any() for values, binary in loaded
    )
    return [
        (values > 0).astype(np.uint8) if two_level else _ids(values, classes, mask)
        for (values, _), mask in zip(loaded, masks, strict=True)
    ]


def _mask_values(mask: Any) -> tuple[np.ndarray, bool]:
    """The values of a mask [H, W], and whether they are only 0 and 255."""
    if isinstance(mask, (str, Path)):
        values = read_mask(mask)
        return values, is_two_level(Path(mask), values)
    if isinstance(mask, Image.Image):
        values = np.asarray(mask if mask.mode in ("1", "L", "P", "I", "I;16", "F") else mask.convert("L"))
    else:
        values = _values(mask)
    values = values[0] if values.ndim == 3 and values.shape[0] == 1 else values
    if values.ndim != 2 or values.size == 0:
        raise RepriError(f"A mask is an array [H, W], got shape {list(values.shape)}.")
    if values.dtype.kind not in "buif":
        raise RepriError(f"A mask holds class ids or numbers in [0, 1], got an array of {values.dtype}.")
    values = values.astype(np.uint8) if values.dtype == bool else values
    return values, bool(values.max() == IGNORE and np.isin(values, (0, IGNORE)).all())


def _ids(values: np.ndarray, classes: int, mask: Any) -> np.ndarray:
    where = f"{mask}" if isinstance(mask, (str, Path)) else "The mask"
    if values.dtype.kind == "f" and classes == 1:
        if not (((values >= 0) & (values <= 1)) | (values == IGNORE)).all():
            raise RepriError("A soft mask holds values in [0, 1], or 255 for unlabelled pixels.")
        return values.astype(np.float32)
    wrong = values[(values != IGNORE) & ((values > classes) | (values < 0) | (values != np.floor(values)))]
    if wrong.size:
        raise RepriError(f"{where} holds the value {wrong[0]:g}: it may hold 0 … {classes}, and 255 for unlabelled.")
    return values.astype(np.uint8)


def load_shots(
    images: Any, marks: Mapping[str, Any], classes: Sequence[str] | None
) -> tuple[tuple[str, ...], list[np.ndarray], list[np.ndarray]]:
    """Names of the classes, images and their maps; ``marks`` holds masks, boxes or scribbles, one of which is given."""
    given = [name for name, value in marks.items() if value is not None]
    if isinstance(images, Mapping) and not given:
        if not all(isinstance(value, tuple) and len(value) == 2 for value in images.values()):
            raise RepriError('Several classes without masks are given as {"cat": (images, masks), …}.')
        marks = {"masks": {name: value[1] for name, value in images.items()}}
        images, given = {name: value[0] for name, value in images.items()}, ["masks"]
    if len(given) != 1:
        raise RepriError(f"Give one of masks, boxes or scribbles, got {' and '.join(given) or 'none'}.")
    (kind,) = given
    if isinstance(images, Mapping):
        names, listed, maps = _by_class(images, marks[kind], kind)
    else:
        names, listed = check_names(classes or ("object",)), _listed(images)
        maps = _marks(marks[kind], len(listed), kind)
        if kind == "masks":
            maps = as_masks(maps, len(names)) if maps else []
        elif kind == "scribbles":
            maps = [_ids(_mask_values(mark)[0], len(names), mark) for mark in maps]
    if not listed:
        raise RepriError("There is no support: give at least one annotated image.")
    arrays, out = [as_image(image) for image in listed], []
    for place, (image, pixels, map) in enumerate(zip(listed, arrays, maps, strict=True)):
        name = image if isinstance(image, (str, Path)) else f"image {place + 1}"
        if kind == "boxes":
            map = _boxed(map, pixels, name, len(names))
        check_same_size(pixels.shape[:2], map, name, f"mask {place + 1}")
        out.append(map)
    return names, arrays, out


def check_names(classes: Sequence[str]) -> tuple[str, ...]:
    """Names of classes, each once."""
    names = tuple(class_name(str(name)) for name in ((classes,) if isinstance(classes, str) else classes))
    if not names or len(set(names)) < len(names):
        raise RepriError(f"The classes must have different names, got {', '.join(names) or 'none'}.")
    return names


def _listed(value: Any) -> list[Any]:
    """One value or several as a list."""
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _marks(marks: Any, count: int, kind: str) -> list[Any]:
    listed = _listed(marks)
    if kind == "boxes" and count == 1 and np.ndim(marks) in (1, 2):  # one box, or several of one image
        listed = [marks]
    if len(listed) != count:
        raise RepriError(f"There are {count} images and {len(listed)} {kind}: give one for each image.")
    return listed


def _by_class(images: Mapping[str, Any], marks: Any, kind: str) -> tuple[tuple[str, ...], list[Any], list[np.ndarray]]:
    """Names, images and ids of {"cat": …, "dog": …}: masks of one object each, numbered by the class."""
    if kind != "masks" or not isinstance(marks, Mapping) or set(images) != set(marks):
        raise RepriError('Several classes are given as {"cat": images, "dog": images} and masks with the same names.')
    listed: dict[Any, tuple[Any, np.ndarray]] = {}
    for n, name in enumerate(images, 1):
        shown = _listed(images[name])
        for image, values in zip(shown, as_masks(_marks(marks[name], len(shown), kind), 1), strict=True):
            ids = np.where(values == IGNORE, IGNORE, (values > 0.5) * n).astype(np.uint8)
            key = str(image) if isinstance(image, (str, Path)) else id(image)
            if key in listed:  # one image that shows several classes
                before = listed[key][1]
                if before.shape != ids.shape:
                    raise RepriError(f"{image} has masks of different sizes.")
                ids = np.where((ids > 0) & (ids != IGNORE), ids, np.where(before == 0, ids, before))
            listed[key] = (image, ids)
    return tuple(images), [image for image, _ in listed.values()], [ids for _, ids in listed.values()]


def _boxed(boxes: Any, image: np.ndarray, name: object, classes: int) -> np.ndarray:
    """[H, W] float32: 0 outside the boxes, the prior of a box inside."""
    if classes > 1:
        raise RepriError("Boxes are for a single class.")
    height, width = image.shape[:2]
    shapes = []
    for box in [boxes] if np.ndim(boxes) == 1 else list(boxes):
        corners = [float(value) for value in box]
        inside = len(corners) == 4 and 0 <= corners[0] < corners[2] <= width and 0 <= corners[1] < corners[3] <= height
        if not inside:
            raise RepriError(
                f"The box {tuple(corners)} of {name} must be (left, top, right, bottom) inside {width}×{height} pixels."
            )
        shapes.append(Shape("object", "box", ((corners[0], corners[1]), (corners[2], corners[3]))))
    return AnnotatedImage(Path(str(name)), height, width, tuple(shapes)).support("object")


def name_of(place: int, image: ImageLike) -> str:
    """The file of an image, or its place in the sequence."""
    return str(image) if isinstance(image, (str, Path)) else f"image {place + 1}"
