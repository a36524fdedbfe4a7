"""LabelMe: one JSON beside each image. Rectangles are boxes; lines and points are scribbles."""

from __future__ import annotations

import base64
import io
import json
import math
import os
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from typing_extensions import Required, TypedDict

from repri.data.io.annotations import AnnotatedImage, Annotations, Shape, class_names
from repri.data.io.classes import class_name
from repri.data.io.files import read_json
from repri.data.io.images import check_pixels, open_content
from repri.data.io.outlines import check_outline, circle, polygons_of
from repri.runtime.errors import RepriError
from repri.runtime.files import atomic
from repri.runtime.reading import short, validated

from .files import check_names, find_image, image_size, json_content

__all__ = ["detect", "read", "write"]

POINTS = {"polygon": 3, "rectangle": 2, "circle": 2, "line": 2}
"""Number of points that a shape needs; the others need one."""
SCRIBBLES = {"line", "linestrip", "point", "points"}


def detect(path: Path) -> bool:
    """Tell whether a folder has JSON files, or a JSON file has shapes."""
    if path.is_dir():
        return any(path.glob("*.json"))
    content = json_content(path)
    return isinstance(content, dict) and "shapes" in content


def read(path: Path, images: Path | None = None) -> Annotations:
    """Read a JSON file or all of a folder; the images are in ``images`` or beside the files."""
    files = sorted(path.glob("*.json")) if path.is_dir() else [path]
    items = tuple(_item(file, images) for file in files)
    return Annotations(class_names(items), items)


def _item(path: Path, images: Path | None) -> AnnotatedImage:
    """Read the file of one image."""
    raw = read_json(path)
    if not isinstance(raw, dict) or "shapes" not in raw:
        raise RepriError(f"{path} is not a LabelMe file: it has no shapes")
    content: Content = validated(Content, raw, f"{path}: a shape cannot be read")
    image = find_image(str(content.get("imagePath") or f"{path.stem}.jpg"), [images, path.parent])
    height, width = content.get("imageHeight"), content.get("imageWidth")
    if not height or not width:
        height, width = image_size(image, path)
    height, width = check_pixels(height, width, f"{path}: the image")
    try:
        shapes = tuple(_shape(entry, height, width) for entry in content["shapes"])
        return AnnotatedImage(image, height, width, shapes)
    except RepriError as error:
        raise RepriError(f"{path}: a shape cannot be read ({error})") from None


class Entry(TypedDict, total=False):
    """One shape of a LabelMe file."""

    label: Required[str | int | float]
    shape_type: str | None
    points: Required[list[tuple[float, float]]]
    mask: str | None


class Content(TypedDict, total=False):
    """What is used of a LabelMe file."""

    shapes: Required[list[Entry]]
    imagePath: str | None
    imageHeight: Any
    imageWidth: Any


def _shape(entry: Entry, height: int, width: int) -> Shape:
    """Read one shape; mistakes in its mask are noticed now, not when it is drawn."""
    label, kind = class_name(str(entry["label"])), entry.get("shape_type") or "polygon"
    points = tuple(entry["points"])
    check_outline(points, height, width)
    if len(points) < POINTS.get(kind, 1):
        raise RepriError(f"a {kind} has only {len(points)} points")
    if kind == "mask":
        draw = partial(_decode_mask, entry.get("mask") or "", points[0], height, width)
        draw()
        return Shape(label, "mask", mask=draw)
    if kind == "rectangle":
        return Shape(label, "box", (points[0], points[1]))
    if kind == "circle":
        radius = math.dist(points[0], points[1])
        return Shape(label, "polygon", circle(points[0], (radius, radius)))
    if kind in SCRIBBLES:
        return Shape(label, "scribble", points)
    if kind == "polygon":
        return Shape(label, "polygon", points)
    raise RepriError(f"unknown shape_type {short(kind)}")


def _decode_mask(text: str, corner: tuple[float, float], height: int, width: int) -> np.ndarray:
    """Decode a PNG in base64 and place its top left at ``corner``; parts outside the image are cut off."""
    try:
        content = io.BytesIO(base64.b64decode(text))
    except ValueError as error:
        raise RepriError(f"its mask is not base64 ({error})") from None
    region = np.asarray(open_content(content, "its mask")) > 0
    if region.ndim != 2:
        raise RepriError("its mask is a colour image: it must have one channel")
    out = np.zeros((height, width), bool)
    left, top = (round(value) for value in corner)
    region = region[max(0, -top) :, max(0, -left) :]
    space = out[max(0, top) :, max(0, left) :][: region.shape[0], : region.shape[1]]
    space[:] = region[: space.shape[0], : space.shape[1]]
    return out


def write(annotations: Annotations, path: Path) -> None:
    """Write a JSON for each image into the folder ``path``; regions become polygons through their border pixels."""
    check_names(annotations, lambda image: image.stem)
    for item in annotations:
        content = {
            "version": "5.5.0",
            "flags": {},
            "shapes": [entry for shape in item.shapes for entry in _entries(shape)],
            "imagePath": os.path.relpath(item.image, path) if item.image.is_file() else item.image.name,
            "imageData": None,
            "imageHeight": item.height,
            "imageWidth": item.width,
        }
        with atomic(path / f"{item.image.stem}.json") as temporary:
            temporary.write_text(json.dumps(content, indent=1))


def _entries(shape: Shape) -> list[dict[str, Any]]:
    """Write one shape; a region of several parts becomes several polygons."""
    if shape.kind == "mask":
        assert shape.mask is not None
        outlines, kind = polygons_of(shape.mask(), "centres"), "polygon"
    else:
        outlines = [shape.points]
        kind = {"box": "rectangle", "scribble": "linestrip" if len(shape.points) > 1 else "point"}.get(
            shape.kind, "polygon"
        )
    common = {"label": shape.label, "group_id": None, "description": "", "flags": {}}
    # LabelMe opens no polygon of fewer than three points: repeat the last one of a dot or a line.
    padded = [[*map(list, ring), *[list(ring[-1])] * (3 - len(ring) if kind == "polygon" else 0)] for ring in outlines]
    return [common | {"points": points, "shape_type": kind} for points in padded]
