"""COCO's JSON: polygons and RLE in, RLE (exact) or polygons out."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from repri.data.io.annotations import IGNORE_LABEL, IGNORED, AnnotatedImage, Annotations, Shape, polygons_of
from repri.data.io.coco import CocoImage, decode, read_annotations
from repri.runtime.files import atomic

from . import find_image


def read(path: Path, images: Path | None = None) -> Annotations:
    content = read_annotations(path)
    order = sorted(content.names)
    items = []
    for image in content.images:
        try:
            items.append(_item(image, content.names, find_image(image.file, [images, path.parent])))
        except (ValueError, TypeError, KeyError) as error:
            raise ValueError(f"{path}: an object of {image.file} cannot be read ({error})") from None
    return Annotations(tuple(content.names[id] for id in order), tuple(items))


def _item(image: CocoImage, names: dict[int, str], path: Path) -> AnnotatedImage:
    """Crowds first, then objects from large to small, so that the small ones lie on top."""
    shapes = []
    for entry in image.objects:
        label = IGNORE_LABEL if entry.get("iscrowd") else names[entry["category_id"]]
        if entry.get("segmentation"):
            area = int(decode(entry["segmentation"], image.height, image.width).sum())
            draw = partial(decode, entry["segmentation"], image.height, image.width)
            shapes.append((bool(entry.get("iscrowd")), area, Shape(label, "mask", mask=draw)))
        elif entry.get("bbox"):
            x, y, width, height = (float(value) for value in entry["bbox"])
            shapes.append((False, width * height, Shape(label, "box", ((x, y), (x + width, y + height)))))
    shapes.sort(key=lambda shape: (not shape[0], -shape[1]))
    return AnnotatedImage(path, image.height, image.width, tuple(shape for *_, shape in shapes))


def write(annotations: Annotations, path: Path, polygons: bool = False) -> None:
    """``polygons``: outlines that can be edited, a little less exact at the borders, instead of RLE."""
    ids = annotations.ids
    objects: list[dict[str, Any]] = []
    for number, item in enumerate(annotations, 1):
        for shape in item.visible():
            ignored = shape.label in IGNORED
            if not ignored and shape.label not in ids:
                continue
            region = shape.region(item.height, item.width)
            if not region.any():
                continue
            entry = {
                "id": len(objects) + 1,
                "image_id": number,
                "category_id": min(ids.values()) if ignored else ids[shape.label],
                "iscrowd": int(ignored),
                "area": int(region.sum()),
                "bbox": _box(region),
            }
            if shape.kind == "box":
                entry["segmentation"] = []
            elif polygons and not ignored:
                rings = polygons_of(region)
                entry["segmentation"] = [[v for point in ring for v in point] for ring in rings]
            else:
                entry["segmentation"] = encode(region)
            objects.append(entry)
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


def encode(region: np.ndarray) -> dict[str, Any]:
    """A bool mask [H, W] as compressed RLE."""
    from pycocotools import mask as rle

    code = rle.encode(np.asfortranarray(region.astype(np.uint8)))
    return {"size": [int(side) for side in code["size"]], "counts": code["counts"].decode("ascii")}


def _box(region: np.ndarray) -> list[int]:
    rows, columns = np.nonzero(region.any(1))[0], np.nonzero(region.any(0))[0]
    top, left = int(rows[0]), int(columns[0])
    return [left, top, int(columns[-1]) - left + 1, int(rows[-1]) - top + 1]
