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
from .segmentations import decode_patch

__all__ = [
    "CocoAnnotations",
    "CocoImage",
    "draw_mask",
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
            region = decode_patch(segmentation, image.height, image.width)
        except ValueError as error:
            raise RepriError(f"{image.file}: object {entry.get('id')}: {error}") from None
        regions.append((region, crowd, IGNORE if crowd else ids[entry["category_id"]]))
    if not first_polygon_only:
        regions.sort(key=lambda item: (not item[1], -int(item[0].region.sum())))
    out = np.zeros((image.height, image.width), mask_type(max(ids.values(), default=0)))
    for patch, _, id in regions:
        patch.of(out)[patch.region] = id
    return out


def has_objects(image: CocoImage, categories: Container[int]) -> bool:
    """Tell whether an image has an object of the given categories that is not a crowd."""
    return any(entry["category_id"] in categories and not entry.get("iscrowd", 0) for entry in image.objects)
