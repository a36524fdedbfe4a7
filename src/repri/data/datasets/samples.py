"""The samples of a split, from a list file, from two folders, or from a folder for each class."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from repri.data.io.files import read_lines
from repri.data.io.images import list_images
from repri.data.io.pairs import pair_files
from repri.runtime.errors import RepriError

from .dataset import Sample

__all__ = ["class_folder_samples", "folder_samples", "listed_samples", "name_samples"]


def listed_samples(path: Path, root: Path) -> tuple[Sample, ...]:
    """Read a list file, which has a line ``image mask`` for each sample.

    Args:
        path: The list file.
        root: Folder to which the paths in it are relative.

    Returns:
        The samples in the order of the list.
    """
    pairs = []
    for number, line in enumerate(read_lines(path), 1):
        parts = line.split()
        if not parts:
            continue
        if len(parts) != 2:
            raise RepriError(f"{path}, line {number}: expected `image mask`, found {len(parts)} words: {line[:80]!r}")
        pairs.append((Path(os.path.normpath(root / parts[0])), root / parts[1]))
    if not pairs:
        raise RepriError(f"the list {path} is empty: it needs a line `image mask` for each image")
    return name_samples(pairs, path)


def folder_samples(images: Path, masks: Path) -> tuple[Sample, ...]:
    """Pair each image of a folder with the mask of the same name.

    Args:
        images: Folder of the images.
        masks: Folder of the masks.

    Returns:
        The samples, sorted by image.
    """
    return name_samples(pair_files(images, masks), images)


def class_folder_samples(root: Path, ids: Mapping[str, int]) -> tuple[Sample, ...]:
    """Find the samples of a data set with one folder for each class, as FSS-1000 has.

    Args:
        root: Folder with the folders of the classes, each with ``x.jpg`` and its two-level mask ``x.png``.
        ids: Class, which names the folder → id.

    Returns:
        The samples, sorted by class and image.
    """
    samples = []
    for name, id in ids.items():
        images = [p for p in list_images(root / name) if p.suffix.lower() != ".png"]
        if not images:
            raise RepriError(f"the class folder {root / name} holds no images (x.jpg with its mask x.png)")
        name_samples([(image, None) for image in images], root / name)  # refuses a name that occurs twice
        samples += [Sample(f"{name}/{image.stem}", image, image.with_suffix(".png"), id) for image in images]
    return tuple(samples)


def name_samples(pairs: Sequence[tuple[Path, Path | None]], where: Path) -> tuple[Sample, ...]:
    """Give samples the shortest ids that tell them apart.

    Args:
        pairs: Files of the images and the masks.
        where: List or folder that they come from, for messages.

    Returns:
        A sample for each pair.

    Example:
        >>> pairs = [(Path("a/1.jpg"), None), (Path("b/1.jpg"), None)]
        >>> [sample.id for sample in name_samples(pairs, Path("list.txt"))]
        ['a/1', 'b/1']
    """
    for depth in (1, 2, 3, 4):
        ids = ["/".join((*image.parts[-depth:-1], image.stem)) for image, _ in pairs]
        if len(set(ids)) == len(ids):
            return tuple(Sample(id, image, mask) for id, (image, mask) in zip(ids, pairs, strict=True))
    doubled = next(image for i, (image, _) in enumerate(pairs) if ids.index(ids[i]) != i)
    raise RepriError(f"{where} has two images that go by the name {doubled.stem!r}: keep one or rename it")
