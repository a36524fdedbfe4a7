"""Folders of images with a mask for each: ``images/`` and ``masks/``, with the names of classes in ``classes.txt``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from repri.runtime.errors import RepriError
from repri.runtime.parallel import parallel

from .classes import class_name, number_classes
from .files import read_lines
from .images import list_images
from .masks import IGNORE, MaskKind, ids_in, is_mask, is_two_level, read_mask

__all__ = ["ImageFolder", "Pair", "pair_files", "read_image_folder"]

MOST_UNNAMED = 64
"""Masks with more different values than this hold grey levels rather than ids, unless the classes are named."""


MANY = 1000
"""Names above which the one that occurs twice is not looked for."""


class Pair(NamedTuple):
    """An image and its mask; the mask's file may be missing."""

    image: Path
    mask: Path


class ImageFolder(NamedTuple):
    """The content of a folder with ``images/`` and ``masks/``."""

    pairs: tuple[Pair, ...]
    classes: dict[int, str]
    """Id → name."""
    masks: MaskKind
    """``binary`` if all masks hold two levels, otherwise ``index``."""


def pair_files(images: Path, masks: Path) -> tuple[Pair, ...]:
    """Pair each image of a folder with the mask of the same name.

    Args:
        images: Folder of the images.
        masks: Folder of the masks.

    Returns:
        The pairs, sorted by image. An image without a mask is paired with the file that is missing.
    """
    files = list_images(images)
    if not files:
        raise RepriError(f"there are no images in {images}")
    if not masks.is_dir():
        raise RepriError(f"there is no folder {masks}")
    by_name = {path.stem: path for path in sorted(masks.iterdir()) if is_mask(path)}
    seen: set[str] = set()
    for path in files:
        if path.stem in seen:
            raise RepriError(f"{images} has two images that go by the name {path.stem!r}: keep one or rename it")
        seen.add(path.stem)
    return tuple(Pair(path, by_name.get(path.stem, masks / f"{path.stem}.png")) for path in files)


def read_image_folder(root: Path) -> ImageFolder:
    """Look through a folder with ``images/``, ``masks/`` and, if the classes have names, ``classes.txt``.

    Args:
        root: The folder.

    Returns:
        The pairs of image and mask, the classes, and what the values of the masks mean. Without ``classes.txt`` the
        classes are the ids in the masks.
    """
    pairs = pair_files(root / "images", root / "masks")
    kind = _kind_of([pair.mask for pair in pairs if pair.mask.is_file()])
    names = root / "classes.txt"
    if os.path.lexists(names):  # a folder or a pipe of this name is told, not passed over
        classes = _named(names)
    else:
        ids = {id for pair in pairs for id in ids_in(read_mask(pair.mask, kind))}
        classes = {id: f"class {id}" for id in sorted(ids - {0, IGNORE})}
        if len(classes) > MOST_UNNAMED:
            raise RepriError(
                f"the masks in {root / 'masks'} hold {len(classes)} different values: if they are ids, name the "
                f"classes in {names}; if they are grey levels of one object, save them as PNG with 0 and 255 alone"
            )
    return ImageFolder(pairs, classes, kind)


def _named(path: Path) -> dict[int, str]:
    """Read ``classes.txt``: one name on each line; empty lines do not count."""
    names = []
    for number, line in enumerate(read_lines(path), 1):
        if not line.strip():
            continue
        try:
            names.append(class_name(line))
        except RepriError as error:
            raise RepriError(f"{path}, line {number}: {error}") from None
    if not names or len(set(names)) < len(names):
        twice = next((name for name in names if names.count(name) > 1), None) if len(names) < MANY else None
        why = "is empty" if not names else "names a class twice" if twice is None else f"names {twice!r} twice"
        raise RepriError(f"{path} {why}: it must name the classes, each once, one on each line")
    return number_classes(names)


def _kind_of(masks: Sequence[Path]) -> MaskKind:
    """Decide for the whole folder: one mask of 0 and 255 among masks of ids is void, not an object."""

    def two_level(path: Path) -> bool | None:
        values = read_mask(path)
        return is_two_level(path, values) if values.any() else None  # an empty mask does not tell

    told = [answer for answer in parallel(two_level, masks) if answer is not None]
    return "binary" if told and all(told) else "index"
