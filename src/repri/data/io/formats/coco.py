"""COCO's JSON: polygons and RLE in, RLE (exact) or polygons out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from repri.data.io.annotations import IGNORE_LABEL, IGNORED, AnnotatedImage, Annotations, Shape
from repri.data.io.coco import CocoImage, parse_annotations
from repri.data.io.files import read_json
from repri.data.io.outlines import polygons_of
from repri.data.io.segmentations import area, decode, encode
from repri.runtime.errors import RepriError
from repri.runtime.files import atomic
from repri.runtime.reading import validated

from .files import check_names, find_image, json_content

__all__ = ["detect", "read", "write"]


def detect(path: Path) -> bool:
    """Tell whether a JSON file lists categories."""
    content = json_content(path)
    return isinstance(content, dict) and "categories" in content


def read(path: Path, images: Path | None = None) -> Annotations:
    """Read the JSON file ``path``; the images are in ``images`` or beside it."""
    content = parse_annotations(read_json(path), path)
    items = []
    for image in content.images:
        try:
            items.append(_item(image, content.names, find_image(image.file, [images, path.parent])))
        except RepriError as error:
            raise RepriError(f"{path}: an object of {image.file[:200]} cannot be read ({error})") from None
    return Annotations(tuple(content.names[id] for id in sorted(content.names)), tuple(items))


def _item(image: CocoImage, names: Mapping[Any, str], path: Path) -> AnnotatedImage:
    """Put crowds first and then objects from large to small, so that the small ones lie on top."""
    shapes = []
    for entry in image.objects:
        crowd = bool(entry.get("iscrowd"))
        label = IGNORE_LABEL if crowd else names[entry["category_id"]]
        if entry.get("segmentation"):
            outline = (entry["segmentation"], image.height, image.width)
            shapes.append((crowd, area(*outline), Shape(label, "mask", mask=partial(decode, *outline))))
        elif entry.get("bbox"):
            x, y, width, height = validated(tuple[float, float, float, float], entry["bbox"], "its bbox")
            shapes.append((False, width * height, Shape(label, "box", ((x, y), (x + width, y + height)))))
    shapes.sort(key=lambda shape: (not shape[0], -shape[1]))
    return AnnotatedImage(path, image.height, image.width, tuple(shape for *_, shape in shapes))


def write(annotations: Annotations, path: Path, polygons: bool = False) -> None:
    """Write one JSON file.

    Args:
        annotations: The annotated images.
        path: The file.
        polygons: Write outlines as polygons, which can be edited but are a little less exact at the borders, instead
            of RLE.
    """
    check_names(annotations, lambda image: image.name)
    ids = annotations.ids
    objects: list[dict[str, Any]] = []
    for number, item in enumerate(annotations, 1):
        for shape in item.visible():
            entry = _entry(shape, item, ids, polygons)
            if entry is not None:
                objects.append({"id": len(objects) + 1, "image_id": number} | entry)
    content = {
        "images": [
            {"id": i, "file_name": item.image.name, "height": item.height, "width": item.width}
            for i, item in enumerate(annotations, 1)
        ],
        "annotations": objects,
        "categories": [{"id": id, "name": name, "supercategory": ""} for name, id in ids.items()],
    }
    with atomic(path) as temporary:
        temporary.write_text(json.dumps(content))


def _entry(shape: Shape, item: AnnotatedImage, ids: dict[str, int], polygons: bool) -> dict[str, Any] | None:
    """One object; None for a shape that is of no class or lies outside the image."""
    ignored = shape.label in IGNORED
    if not ignored and shape.label not in ids:
        return None
    region = shape.region(item.height, item.width)
    if not region.any():
        return None
    segmentation: Any = []
    if polygons and shape.kind != "box" and not ignored:
        segmentation = [[value for point in ring for value in point] for ring in polygons_of(region)]
    elif shape.kind != "box":
        segmentation = encode(region)
    return {
        "category_id": min(ids.values()) if ignored else ids[shape.label],
        "iscrowd": int(ignored),
        "area": int(region.sum()),
        "bbox": _box(region),
        "segmentation": segmentation,
    }


def _box(region: np.ndarray) -> list[int]:
    """Left, top, width and height of the smallest box around a region."""
    rows, columns = np.nonzero(region.any(1))[0], np.nonzero(region.any(0))[0]
    top, left = int(rows[0]), int(columns[0])
    return [left, top, int(columns[-1]) - left + 1, int(rows[-1]) - top + 1]
