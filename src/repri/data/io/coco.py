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

from repri.data.datasets.dataset import Sample, Source, named

from .images import IGNORE, MAX_PIXELS

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
        names = {category["id"]: str(category["name"]) for category in content["categories"]}
        if len(set(names.values())) != len(names):
            raise ValueError("two categories have one name")
        objects = defaultdict(list)
        for entry in content["annotations"]:
            if entry["category_id"] not in names:
                raise ValueError(f"object {entry.get('id')} has the unlisted category {entry['category_id']!r}")
            objects[entry["image_id"]].append(entry)
        entries = sorted(content["images"], key=lambda entry: entry["id"])
        images = tuple(_image(entry, tuple(objects[entry["id"]])) for entry in entries)
    except OSError as error:
        raise ValueError(f"cannot read the annotations {path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        what = f"no {error}" if isinstance(error, KeyError) else str(error)
        raise ValueError(f"{path} is not COCO's annotation format ({what}): correct it or export it again") from None
    return CocoAnnotations(images, names)


def _image(entry: dict[str, Any], objects: tuple[dict[str, Any], ...]) -> CocoImage:
    """LVIS gives a URL in place of a file name: its last two parts are folder and file."""
    url = entry.get("coco_url")
    file = entry["file_name"] if "file_name" in entry or not url else "/".join(url.split("/")[-2:])
    height, width = entry["height"], entry["width"]
    if not isinstance(file, str) or not all(type(side) is int and side > 0 for side in (height, width)):
        raise ValueError(f"image {entry['id']} has the file {file!r} and the size {width!r}×{height!r}")
    if height * width > MAX_PIXELS:
        raise ValueError(f"image {entry['id']} has {width}×{height} pixels, the limit is {MAX_PIXELS:,}")
    return CocoImage(file, height, width, objects)


def draw_mask(image: CocoImage, ids: Mapping[int, int], style: MaskStyle = "clean") -> np.ndarray:
    """[H, W] class ids; ``ids``: category id → class id, objects of other categories are left out."""
    out = np.zeros((image.height, image.width), np.uint8 if max(ids.values(), default=0) < 256 else np.uint16)
    shapes = []
    for entry in image.objects:
        if entry["category_id"] not in ids:
            continue
        crowd = bool(entry.get("iscrowd", 0))
        outline = entry.get("segmentation")
        if style == "official" and (crowd or not isinstance(outline, list) or not outline):
            continue
        if not outline:
            raise ValueError(f"{image.file}: object {entry.get('id')} has no outline to draw a mask from")
        try:
            region = decode(outline[:1] if style == "official" else outline, image.height, image.width)
        except ValueError as error:
            raise ValueError(f"{image.file}: object {entry.get('id')}: {error}") from None
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
            polygons = [[float(value) for value in polygon] for polygon in segmentation]
            polygons = [polygon for polygon in polygons if len(polygon) >= 6]
            if not polygons:
                return np.zeros((height, width), bool)
            return rle.decode(rle.merge(rle.frPyObjects(polygons, height, width))).astype(bool)
        counts, size = segmentation["counts"], list(segmentation["size"])
        runs = counts if isinstance(counts, list) else _runs(counts)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise ValueError(f"a segmentation is neither polygons nor RLE ({error})") from None
    if size != [height, width]:
        raise ValueError(f"its RLE is of a {size[-1]}×{size[0]} image, this one is {width}×{height}")
    if not all(type(run) is int and run >= 0 for run in runs) or sum(runs) != height * width:
        raise ValueError(f"its RLE's runs do not add up to the {height * width} pixels of the image")
    values = np.arange(len(runs)) % 2 == 1
    return np.repeat(values, runs).reshape(width, height).T


def _runs(code: str | bytes) -> list[int]:
    """Run lengths of COCO's compressed RLE: five bits a character, the sixth says that more follow, and
    from the fourth run on it is the difference to the run before the last."""
    text = code.decode("ascii") if isinstance(code, bytes) else code
    runs: list[int] = []
    value = shift = 0
    for character in text:
        bits = ord(character) - 48
        value |= (bits & 31) << shift
        shift += 5
        if not bits & 32:
            if bits & 16:
                value -= 1 << shift
            runs.append(value + (runs[-2] if len(runs) > 2 else 0))
            value = shift = 0
    return runs


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
    chosen = [image for image in annotations.images if has_objects(image, ids)]
    if not chosen:
        raise ValueError(f"{path} annotates no object of the given classes")
    samples = named([(images / image.file, None) for image in chosen], path)
    kept = dict(zip((sample.id for sample in samples), chosen, strict=True))
    stat = path.stat()
    return samples, Source(
        lambda id: draw_mask(kept[id], ids), f"{path.absolute()} {stat.st_size} {stat.st_mtime_ns} {ids}"
    )
