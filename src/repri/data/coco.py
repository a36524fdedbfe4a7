"""Masks of class ids from COCO annotations.

``clean``     all polygons and RLE of every object, smaller objects over larger ones, crowds 255
              (under the objects);
``official``  the authors' masks: the first polygon of each object only, no crowds, later ones over earlier.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from .dataset import Sample, Source
from .images import IGNORE

__all__ = ["CocoImage", "decode", "draw_mask", "open_annotations", "read_annotations"]

MaskStyle = Literal["clean", "official"]


class CocoImage(NamedTuple):
    """One image's entry and its objects."""

    file: str
    height: int
    width: int
    objects: tuple[dict[str, Any], ...]

    @property
    def stem(self) -> str:
        return Path(self.file).stem


class CocoAnnotations(NamedTuple):
    images: tuple[CocoImage, ...]
    """By id."""
    names: dict[int, str]
    """Category id → name."""


def read_annotations(path: Path) -> CocoAnnotations:
    """An ``instances_*.json``, its objects gathered by image in the file's order."""
    try:
        content = json.loads(path.read_text())
        names = {category["id"]: category["name"] for category in content["categories"]}
        objects = defaultdict(list)
        for entry in content["annotations"]:
            objects[entry["image_id"]].append(entry)
        images = tuple(
            CocoImage(entry["file_name"], entry["height"], entry["width"], tuple(objects[entry["id"]]))
            for entry in sorted(content["images"], key=lambda entry: entry["id"])
        )
    except OSError as error:
        raise ValueError(f"cannot read the annotations {path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError) as error:
        what = f"no {error}" if isinstance(error, KeyError) else str(error)
        raise ValueError(f"{path} is not COCO's annotation format ({what})") from None
    unknown = {o["category_id"] for image in images for o in image.objects} - set(names)
    if unknown:
        raise ValueError(f"{path}: an object has the category {min(unknown)}, which the file does not list")
    return CocoAnnotations(images, names)


def draw_mask(image: CocoImage, ids: Mapping[int, int], style: MaskStyle = "clean") -> np.ndarray:
    """[H, W] class ids; ``ids``: category id → class id, objects of other categories are left out."""
    out = np.zeros((image.height, image.width), np.uint8 if max(ids.values(), default=0) < 256 else np.uint16)
    shapes = []
    for entry in image.objects:
        if entry["category_id"] not in ids:
            continue
        crowd = bool(entry.get("iscrowd", 0))
        if style == "official":
            if crowd or not isinstance(entry["segmentation"], list) or not entry["segmentation"]:
                continue
            region = decode(entry["segmentation"][:1], image.height, image.width)
        else:
            region = decode(entry["segmentation"], image.height, image.width)
        shapes.append((region, IGNORE if crowd else ids[entry["category_id"]], crowd))
    if style == "clean":
        shapes.sort(key=lambda shape: (not shape[2], -int(shape[0].sum())))
    for region, id, _ in shapes:
        out[region] = id
    return out


def decode(segmentation: Any, height: int, width: int) -> np.ndarray:
    """Polygons, or RLE compressed or not, as bool [H, W]."""
    from pycocotools import mask as rle

    try:
        if isinstance(segmentation, list):
            polygons = [polygon for polygon in segmentation if len(polygon) >= 6]
            if not polygons:
                return np.zeros((height, width), bool)
            code: Any = rle.merge(rle.frPyObjects(polygons, height, width))
        elif isinstance(segmentation["counts"], list):
            code = rle.frPyObjects(segmentation, height, width)
        else:
            code = segmentation
        region = rle.decode(code).astype(bool)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"a segmentation is neither polygons nor RLE: {error}") from None
    if region.shape != (height, width):
        raise ValueError(f"a segmentation's RLE is {region.shape[1]}×{region.shape[0]}, its image {width}×{height}")
    return region


def has_objects(image: CocoImage, categories: Sequence[int] | Mapping[int, int]) -> bool:
    """Whether at least one object that is not a crowd is annotated."""
    return any(o["category_id"] in categories and not o.get("iscrowd", 0) for o in image.objects)


def open_annotations(path: Path, images: Path, classes: Mapping[str, int]) -> tuple[tuple[Sample, ...], Source]:
    """A split whose masks are drawn from a COCO file when asked for; ``classes``: name → class id."""
    annotations = read_annotations(path)
    ids = {category: classes[name] for category, name in annotations.names.items() if name in classes}
    missing = set(classes) - set(annotations.names.values())
    if missing:
        raise ValueError(f"{path} has no category {min(missing)!r}")
    kept = {image.stem: image for image in annotations.images if has_objects(image, ids)}
    if not kept:
        raise ValueError(f"{path} annotates no object of the given classes")
    samples = tuple(Sample(stem, images / image.file, None) for stem, image in kept.items())
    stat = path.stat()
    return samples, Source(lambda id: draw_mask(kept[id], ids), f"{path.name} {stat.st_size} {stat.st_mtime_ns} {ids}")
