"""A data set: pictures with masks of class ids, the classes' names, and the folds over them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from repri.data.io.images import (
    IGNORE,
    IMAGE_SUFFIXES,
    MASK_SUFFIXES,
    MaskKind,
    check_same_size,
    is_two_level,
    read_image,
    read_mask,
    upright_size,
)
from repri.runtime.parallel import parallel
from repri.runtime.settings import nearest

from .folds import numbered

__all__ = [
    "Dataset",
    "Sample",
    "Source",
    "class_folders",
    "images_in",
    "is_mask",
    "named",
    "open_folder",
    "pairs_in",
    "read_list",
]

MOST_UNNAMED = 64
"""Ids without a name in masks: beyond, they are grey levels rather than classes."""


class Sample(NamedTuple):
    """One picture and where its mask is."""

    id: str
    """The image's file name without its suffix; with its folder where names repeat."""
    image: Path
    mask: Path | None
    """None: drawn from annotations."""
    class_id: int | None = None
    """The class that a two-level mask shows, where the file's place says it."""


class Source(NamedTuple):
    """Masks that are not files: drawn when asked for."""

    draw: Any
    """id of a sample → [H, W] class ids."""
    fingerprint: str


@dataclass(frozen=True)
class Dataset:
    """Pictures, masks, class names and folds of one split."""

    name: str
    split: str
    root: Path
    classes: Mapping[int, str]
    samples: tuple[Sample, ...]
    folds: tuple[tuple[int, ...], ...]
    """Ids that each fold tests."""
    masks: MaskKind = "index"
    colours: Mapping[tuple[int, int, int], int] | None = None
    source: Source | None = None
    mask_folder: Path | None = None
    """Where every mask belongs to a picture, the folder of them."""
    class_files: Mapping[int, frozenset[str]] | None = None
    """Class → samples with enough of it, where the data brings such lists (see :func:`class_lists`)."""

    def __len__(self) -> int:
        return len(self.samples)

    @cached_property
    def position(self) -> dict[str, int]:
        """Place of each sample by its id."""
        return {sample.id: i for i, sample in enumerate(self.samples)}

    def __getitem__(self, id: str) -> Sample:
        try:
            return self.samples[self.position[id]]
        except KeyError:
            raise ValueError(f"{self.name} {self.split} has no image {id!r} (root {self.root})") from None

    def image(self, id: str) -> np.ndarray:
        """[H, W, 3] uint8."""
        return read_image(self[id].image)

    def mask(self, id: str) -> np.ndarray:
        """[H, W] class ids, as large as the picture."""
        return self._mask_of(id, upright_size(self[id].image))

    def annotation(self, id: str) -> np.ndarray:
        """[H, W] class ids, whatever the picture is like."""
        sample = self[id]
        if self.source is not None:
            return self.source.draw(id)
        assert sample.mask is not None
        if not sample.mask.is_file():
            raise ValueError(f"{sample.image} has no mask: {sample.mask} does not exist; add it or leave the image out")
        mask = read_mask(sample.mask, self.masks, self.colours)
        return mask if sample.class_id is None else _as_class(mask, sample.class_id)

    def pair(self, id: str) -> tuple[np.ndarray, np.ndarray]:
        """Picture and mask, of one size."""
        image = self.image(id)
        return image, self._mask_of(id, image.shape[:2])

    def _mask_of(self, id: str, size: tuple[int, ...]) -> np.ndarray:
        sample, mask = self[id], self.annotation(id)
        check_same_size(size, mask, sample.image, sample.mask or f"the annotation of {id}")
        return mask

    def novel(self, fold: int) -> tuple[int, ...]:
        """Ids that a fold tests."""
        if fold not in range(len(self.folds)):
            raise ValueError(f"{self.name} has the folds 0 to {len(self.folds) - 1}, not {fold}")
        return self.folds[fold]

    def base(self, fold: int) -> tuple[int, ...]:
        """Ids that a fold trains on."""
        novel = set(self.novel(fold))
        return tuple(id for id in self.classes if id not in novel)

    def id_of(self, name: str) -> int:
        """Id of a class by its name."""
        for id, known in self.classes.items():
            if known == name:
                return id
        raise ValueError(f"{self.name} has no class {name!r}{nearest(name, list(self.classes.values()))}")


def _as_class(mask: np.ndarray, id: int) -> np.ndarray:
    out = np.zeros(mask.shape, np.uint8 if id < 256 else np.uint16)
    out[(mask > 0) & (mask != IGNORE)] = id
    out[mask == IGNORE] = IGNORE
    return out


def read_list(path: Path, root: Path) -> tuple[Sample, ...]:
    """The samples of a list file: ``image mask`` on each line, relative to ``root``."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except OSError as error:
        raise ValueError(f"cannot read the list {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not a text file: a list has a line `image mask` for each image") from None
    pairs = []
    for number, line in enumerate(lines, 1):
        parts = line.split()
        if not parts:
            continue
        if len(parts) != 2:
            raise ValueError(f"{path}, line {number}: expected `image mask`, found {len(parts)} words: {line[:80]!r}")
        pairs.append((Path(os.path.normpath(root / parts[0])), root / parts[1]))
    if not pairs:
        raise ValueError(f"the list {path} is empty: it needs a line `image mask` for each image")
    return named(pairs, path)


def named(pairs: Sequence[tuple[Path, Path | None]], where: Path) -> tuple[Sample, ...]:
    """Samples with the shortest ids that tell them apart."""
    for depth in (1, 2, 3, 4):
        ids = ["/".join((*image.parts[-depth:-1], image.stem)) for image, _ in pairs]
        if len(set(ids)) == len(ids):
            return tuple(Sample(id, image, mask) for id, (image, mask) in zip(ids, pairs, strict=True))
    doubled = next(image for i, (image, _) in enumerate(pairs) if ids.index(ids[i]) != i)
    raise ValueError(f"{where} has two images that go by the name {doubled.stem!r}: keep one or rename it")


def images_in(folder: Path) -> list[Path]:
    """The pictures of a folder, sorted by name."""
    if not folder.is_dir():
        raise ValueError(f"there is no folder {folder}")
    return sorted(p for p in folder.iterdir() if p.suffix.lower() in IMAGE_SUFFIXES and not p.name.startswith("."))


def is_mask(path: Path) -> bool:
    """Whether a file goes by the name of a mask; hidden ones do not."""
    return path.suffix.lower() in MASK_SUFFIXES and not path.name.startswith(".")


def pairs_in(images: Path, masks: Path) -> tuple[Sample, ...]:
    """The samples of two folders: each picture with the mask of the same name, which verification looks for."""
    pictures = images_in(images)
    if not pictures:
        raise ValueError(f"there are no images in {images}")
    if not masks.is_dir():
        raise ValueError(f"there is no folder {masks}")
    found = {path.stem: path for path in sorted(masks.iterdir()) if is_mask(path)}
    return named([(path, found.get(path.stem, masks / f"{path.stem}.png")) for path in pictures], images)


def open_folder(root: Path, classes: Sequence[str] | None = None, masks: MaskKind = "auto") -> Dataset:
    """``root/images`` + ``root/masks``; the classes' names from ``root/classes.txt``, else by number."""
    samples = pairs_in(root / "images", root / "masks")
    if masks == "auto":  # decided for the folder: one mask of 0 and 255 among masks of ids is void, not an object
        there = [sample.mask for sample in samples if sample.mask is not None and sample.mask.is_file()]

        def level(path: Path) -> bool | None:
            values = read_mask(path)
            return is_two_level(path, values) if values.any() else None  # all black tells nothing

        levels = [found for found in parallel(level, there) if found is not None]
        masks = "binary" if levels and all(levels) else "index"
    names_file = root / "classes.txt"
    if classes is None and names_file.is_file():
        classes = [line.strip() for line in names_file.read_text(encoding="utf-8-sig").splitlines() if line.strip()]
    if classes is None:
        ids = set()
        for sample in samples:
            ids |= set(np.unique(read_mask(sample.mask, masks)).tolist())  # ty: ignore[invalid-argument-type]
        known = {id: f"class {id}" for id in sorted(ids - {0, IGNORE})}
        if len(known) > MOST_UNNAMED:
            raise ValueError(
                f"the masks in {root / 'masks'} hold {len(known)} different values: if they are ids, name the classes "
                f"in {names_file}; if they are grey levels of one object, save them as PNG with 0 and 255 alone"
            )
    else:
        known = numbered(list(classes))
    return Dataset(root.name, "all", root, known, samples, (tuple(known),), masks, mask_folder=root / "masks")


def class_folders(root: Path, ids: Mapping[str, int]) -> tuple[Sample, ...]:
    """``CLASS/x.jpg`` with the two-level mask ``CLASS/x.png``."""
    samples = []
    for name, id in ids.items():
        pictures = [p for p in images_in(root / name) if p.suffix.lower() != ".png"]
        if not pictures:
            raise ValueError(f"the class folder {root / name} holds no images (x.jpg with its mask x.png)")
        samples += [Sample(f"{name}/{image.stem}", image, image.with_suffix(".png"), id) for image in pictures]
        named([(image, None) for image in pictures], root / name)  # no name twice
    return tuple(samples)
