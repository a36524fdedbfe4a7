"""COCO's annotation files: reading them, and drawing their objects as masks of class ids."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from typing_extensions import Required, TypedDict

from repri.runtime.errors import RepriError
from repri.runtime.reading import short, validated

from .classes import class_name
from .files import forget_json, read_json
from .images import check_pixels
from .masks import IGNORE, mask_type
from .outlines import check_outline

__all__ = [
    "CocoAnnotations",
    "CocoImage",
    "area",
    "decode",
    "draw_mask",
    "encode",
    "has_objects",
    "parse_annotations",
    "read_annotations",
]


Id = int | str


class Category(TypedDict):
    """One entry of ``categories``."""

    id: Id
    name: str | int | float


class Entry(TypedDict, total=False):
    """One entry of ``annotations``; :func:`decode` checks its outline."""

    id: Any
    image_id: Required[Id]
    category_id: Required[Id]
    iscrowd: int | bool | None
    segmentation: Any
    bbox: Any


class ImageEntry(TypedDict, total=False):
    """One entry of ``images``."""

    id: Required[Id]
    file_name: Any
    coco_url: Any
    height: Required[Any]
    width: Required[Any]


class Content(TypedDict):
    """What is used of a COCO file."""

    images: list[ImageEntry]
    annotations: list[Entry]
    categories: list[Category]


class CocoImage(NamedTuple):
    """One image of a COCO file and its objects."""

    file: str
    height: int
    width: int
    objects: tuple[dict[str, Any], ...]
    """Entries of ``annotations``, in the order of the file."""

    @property
    def stem(self) -> str:
        """File name without folder and suffix."""
        return Path(self.file).stem


class CocoAnnotations(NamedTuple):
    """The content of a COCO file."""

    images: tuple[CocoImage, ...]
    """Sorted by their ids."""
    names: dict[int, str]
    """Category id → name."""


def read_annotations(path: Path) -> CocoAnnotations:
    """Read a COCO file such as ``instances_val2014.json``.

    Args:
        path: The JSON file.

    Returns:
        Its images, each with its objects, and its categories.
    """
    try:
        return parse_annotations(read_json(path), path)
    finally:
        forget_json()


def parse_annotations(content: Any, path: Path) -> CocoAnnotations:
    """Check the content of a COCO file and gather its objects by image.

    Args:
        content: The parsed JSON.
        path: Its file, for messages.

    Returns:
        The images, each with its objects, and the categories.
    """
    try:
        checked = validated(Content, content, "it")
        names = {category["id"]: class_name(str(category["name"])) for category in checked["categories"]}
        if len(set(names.values())) != len(checked["categories"]):
            raise RepriError("two categories have one name or one id")
        objects = defaultdict(list)
        for entry in checked["annotations"]:
            if entry["category_id"] not in names:
                raise RepriError(f"object {short(entry.get('id'))} has the unlisted category {entry['category_id']!r}")
            objects[entry["image_id"]].append(entry)
        entries = sorted(checked["images"], key=lambda entry: (isinstance(entry["id"], str), entry["id"]))
        images = tuple(_image(entry, tuple(objects[entry["id"]])) for entry in entries)
    except RepriError as error:
        raise RepriError(f"{path} is not COCO's annotation format ({error}): correct it or export it again") from None
    return CocoAnnotations(images, names)


def _image(entry: ImageEntry, objects: tuple[dict[str, Any], ...]) -> CocoImage:
    """Check one image; LVIS gives a URL instead of a file name, whose last two parts are folder and file."""
    url = entry.get("coco_url")
    named = "file_name" in entry or not isinstance(url, str)
    file = entry.get("file_name") if named else "/".join(url.split("/")[-2:])
    height, width = entry["height"], entry["width"]
    if not isinstance(file, str) or not file or not all(type(side) is int and side > 0 for side in (height, width)):
        size = f"{short(width)}×{short(height)}"
        raise RepriError(
            f"image {short(entry['id'])} has the file {short(file)} and the size {size}: "
            "it must have a file name, and whole numbers above 0"
        )
    check_pixels(height, width, f"image {short(entry['id'])}")
    return CocoImage(file, height, width, objects)


def draw_mask(image: CocoImage, ids: Mapping[int, int], first_polygon_only: bool = False) -> np.ndarray:
    """Draw the objects of an image as a mask of class ids.

    All polygons and RLE of every object are drawn, smaller objects over larger ones, and crowds are 255 where no object
    covers them.

    Args:
        image: The image and its objects.
        ids: Category id → class id; objects of other categories are left out.
        first_polygon_only: Draw only the first polygon of each object and no crowds, later objects over earlier ones,
            as the code of the paper's authors does.

    Returns:
        [H, W] class ids.
    """
    regions = []
    for entry in image.objects:
        if entry["category_id"] not in ids:
            continue
        crowd = bool(entry.get("iscrowd", 0))
        segmentation = entry.get("segmentation")
        if first_polygon_only:
            if crowd or not isinstance(segmentation, list) or not segmentation:
                continue
            segmentation = segmentation[:1]
        if not segmentation:
            raise RepriError(f"{image.file}: object {entry.get('id')} has no outline to draw a mask from")
        try:
            region = decode(segmentation, image.height, image.width)
        except ValueError as error:
            raise RepriError(f"{image.file}: object {entry.get('id')}: {error}") from None
        regions.append((region, crowd, IGNORE if crowd else ids[entry["category_id"]]))
    if not first_polygon_only:
        regions.sort(key=lambda item: (not item[1], -int(item[0].sum())))
    out = np.zeros((image.height, image.width), mask_type(max(ids.values(), default=0)))
    for region, _, id in regions:
        out[region] = id
    return out


def has_objects(image: CocoImage, categories: Container[int]) -> bool:
    """Tell whether an image has an object of the given categories that is not a crowd."""
    return any(entry["category_id"] in categories and not entry.get("iscrowd", 0) for entry in image.objects)


def decode(segmentation: Any, height: int, width: int) -> np.ndarray:
    """Draw the ``segmentation`` of one object.

    Args:
        segmentation: A list of polygons, or RLE, compressed or not.
        height: Height of the image.
        width: Width of the image.

    Returns:
        bool [H, W].

    Example:
        >>> decode({"size": [2, 3], "counts": [2, 3, 1]}, 2, 3).astype(int).tolist()
        [[0, 1, 1], [0, 1, 0]]
    """
    from pycocotools import mask as rle

    if isinstance(segmentation, list):
        code = _outlined(segmentation, height, width)
        return np.zeros((height, width), bool) if code is None else rle.decode(code).astype(bool)
    runs = _checked_runs(segmentation, height, width)
    values = np.arange(len(runs)) % 2 == 1
    return np.repeat(values, runs).reshape(width, height).T


def area(segmentation: Any, height: int, width: int) -> int:
    """Count the pixels of one object without drawing it; mistakes in it are errors, as in :func:`decode`.

    Args:
        segmentation: A list of polygons, or RLE, compressed or not.
        height: Height of the image.
        width: Width of the image.

    Returns:
        The number of pixels.

    Example:
        >>> area({"size": [2, 3], "counts": [2, 3, 1]}, 2, 3)
        3
    """
    from pycocotools import mask as rle

    if isinstance(segmentation, list):
        code = _outlined(segmentation, height, width)
        return 0 if code is None else int(rle.area(code))
    return sum(_checked_runs(segmentation, height, width)[1::2])


def _outlined(segmentation: list[Any], height: int, width: int) -> Any:
    """Polygons as pycocotools' RLE, or None if there is nothing to draw."""
    from pycocotools import mask as rle

    try:
        polygons = [[float(value) for value in polygon] for polygon in segmentation]
    except (TypeError, ValueError, OverflowError):
        raise RepriError(f"a segmentation is neither polygons nor RLE: {POLYGONS}, got {short(segmentation)}") from None
    polygons = [polygon for polygon in polygons if len(polygon) >= 6]
    for polygon in polygons:
        if len(polygon) % 2:
            raise RepriError(f"a polygon has {len(polygon)} values, which are not pairs of x and y")
        check_outline(polygon, height, width)
    return rle.merge(rle.frPyObjects(polygons, height, width)) if polygons else None


def _checked_runs(segmentation: Any, height: int, width: int) -> list[int]:
    """The run lengths of an RLE, which cover the image exactly."""
    try:
        counts, size = segmentation["counts"], list(segmentation["size"])
        runs = counts if isinstance(counts, list) else _runs(counts)
    except RepriError:
        raise
    except (KeyError, TypeError, ValueError, IndexError):
        raise RepriError(f"a segmentation is neither polygons nor RLE: {RLE}, got {short(segmentation)}") from None
    if size != [height, width]:
        its = "×".join(short(side) for side in size[1::-1])
        raise RepriError(f"its RLE is of a {its} image, this one is {width}×{height}")
    if not all(type(run) is int and run >= 0 for run in runs) or sum(runs) != height * width:
        raise RepriError(f"its RLE's runs do not add up to the {height * width} pixels of the image")
    return runs


POLYGONS = "polygons are lists of numbers x, y, x, y, …"
RLE = "RLE has a size and counts"
MOST_BITS = 60
"""Bits of a run length; an image has fewer pixels than they can count."""


def _runs(code: str | bytes) -> list[int]:
    """Decode the run lengths of COCO's compressed RLE.

    A character holds five bits of a number, and its sixth bit says that more follow. From the fourth run on, the number
    is the difference to the run before the last.
    """
    text = code.decode("ascii") if isinstance(code, bytes) else code
    runs: list[int] = []
    value = shift = 0
    for character in text:
        bits = ord(character) - 48
        value |= (bits & 31) << shift
        shift += 5
        if not 0 <= bits < 64 or shift > MOST_BITS:
            raise RepriError("its counts are not COCO's compressed RLE")
        if not bits & 32:
            if bits & 16:
                value -= 1 << shift
            runs.append(value + (runs[-2] if len(runs) > 2 else 0))
            value = shift = 0
    return runs


def encode(region: np.ndarray) -> dict[str, Any]:
    """Encode a region as COCO's compressed RLE.

    Args:
        region: bool [H, W].

    Returns:
        ``size`` and ``counts``.

    Example:
        >>> region = np.array([[0, 1, 1], [0, 1, 0]], bool)
        >>> np.array_equal(decode(encode(region), 2, 3), region)
        True
    """
    from pycocotools import mask as rle

    code = rle.encode(np.asfortranarray(region.astype(np.uint8)))
    return {"size": [int(side) for side in code["size"]], "counts": code["counts"].decode("ascii")}
