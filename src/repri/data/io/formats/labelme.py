"""LabelMe: one JSON beside each image. Rectangles are boxes; lines and points are scribbles."""

from __future__ import annotations

import base64
import binascii
import io
import json
import math
import os
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from repri.data.io.annotations import AnnotatedImage, Annotations, Shape, class_names
from repri.data.io.files import read_json
from repri.data.io.outlines import circle, polygons_of
from repri.runtime.errors import RepriError
from repri.runtime.files import atomic

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
    content = read_json(path)
    if not isinstance(content, dict) or "shapes" not in content:
        raise RepriError(f"{path} is not a LabelMe file: it has no shapes")
    image = find_image(str(content.get("imagePath") or f"{path.stem}.jpg"), [images, path.parent])
    height, width = content.get("imageHeight"), content.get("imageWidth")
    if not height or not width:
        height, width = image_size(image, path)
    if not all(type(side) is int and side > 0 for side in (height, width)):
        raise RepriError(f"{path}: the image's size is {width!r}×{height!r}: it must be whole numbers")
    try:
        shapes = tuple(_shape(entry, height, width) for entry in content["shapes"])
    except (KeyError, TypeError, ValueError, IndexError, binascii.Error, OSError) as error:
        raise RepriError(f"{path}: a shape cannot be read ({error})") from None
    return AnnotatedImage(image, height, width, shapes)


def _shape(entry: dict[str, Any], height: int, width: int) -> Shape:
    """Read one shape; mistakes in its mask are noticed now, not when it is drawn."""
    label, kind = str(entry["label"]), entry.get("shape_type") or "polygon"
    points = tuple((float(x), float(y)) for x, y in entry["points"])
    if len(points) < POINTS.get(kind, 1):
        raise RepriError(f"a {kind} has only {len(points)} points")
    if kind == "mask":
        draw = partial(_decode_mask, entry["mask"], points[0], height, width)
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
    raise RepriError(f"unknown shape_type {kind!r}")


def _decode_mask(text: str, corner: tuple[float, float], height: int, width: int) -> np.ndarray:
    """Decode a PNG in base64 and place its top left at ``corner``; parts outside the image are cut off."""
    region = np.asarray(Image.open(io.BytesIO(base64.b64decode(text)))) > 0
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
