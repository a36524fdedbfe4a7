"""Any data set, described by a small YAML file::

name: cells
root: .                       # relative to this file; --root overrides
classes: [nucleus, membrane]  # ids 1, 2, …, or {7: nucleus, …}
masks: index                  # index | binary | auto | colour
colours: {nucleus: [255, 0, 0]}            # for colour; names, background and ignore
splits:
  train: lists/train.txt                   # lines "image mask", relative to root
  val: {images: val/images, masks: val/masks}
  test: {coco: instances.json, images: test}
  all: {class_folders: .}                  # CLASS/x.jpg + CLASS/x.png, as FSS-1000
folds: 4                      # blocks, as PASCAL-5i; {interleaved: 4} as COCO-20i; or lists of names
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from repri.data.io.classes import class_name, number_classes
from repri.data.io.masks import IGNORE, MaskKind
from repri.runtime.errors import RepriError
from repri.runtime.settings import nearest, parse, read_yaml

from .coco import open_annotations
from .dataset import Dataset, Sample, Source
from .folds import contiguous_folds, interleaved_folds
from .samples import class_folder_samples, folder_samples, listed_samples

__all__ = ["Description", "open_described", "read_description"]


@dataclass
class Description:
    """The settings of a YAML file; the docstring of this module shows one."""

    name: str
    classes: list[str] | dict[int, str]
    splits: dict[str, str | dict[str, str]]
    root: str = "."
    masks: MaskKind = "index"
    colours: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    folds: int | dict[str, int] | list[list[str]] = 1


def read_description(path: Path) -> Description:
    """Read the YAML file of a data set.

    Args:
        path: The file.

    Returns:
        Its settings, with at least one split.
    """
    settings = parse(Description, read_yaml(path), str(path))
    if not settings.splits:
        raise RepriError(f"{path} names no split: give at least one, such as val: lists/val.txt")
    return settings


def open_described(path: Path, root: Path | None, split: str) -> Dataset:
    """Open the data set that a YAML file describes.

    Args:
        path: The file.
        root: Folder of the data. None: the one that the file names.
        split: One of the splits in the file.

    Returns:
        The data set.
    """
    settings = read_description(path)
    root = path.parent / settings.root if root is None else root
    if not root.is_dir():
        raise RepriError(f"{path}: there is no folder {root}: correct root, or give --root")
    if split not in settings.splits:
        raise RepriError(f"{path} has the splits {', '.join(settings.splits)}, not {split!r}")
    classes = settings.classes if isinstance(settings.classes, dict) else number_classes(settings.classes)
    _check_classes(classes, path)
    ids = {name: id for id, name in classes.items()}
    place = settings.splits[split]
    samples, source = _samples_of(place, path, root, ids)
    return Dataset(
        name=settings.name,
        split=split,
        root=root,
        classes=classes,
        samples=samples,
        folds=_folds_of(settings.folds, path, ids),
        masks="binary" if any(sample.class_id for sample in samples) else settings.masks,
        colours=_colours_of(settings, path, ids),
        source=source,
        mask_folder=root / place["masks"] if isinstance(place, dict) and "masks" in place else None,
    )


def _check_classes(classes: Mapping[int, str], path: Path) -> None:
    """Refuse ids that cannot be classes and names that occur twice."""
    for id in classes:
        if id < 1 or id == IGNORE or id > 65535:
            raise RepriError(f"{path}: {id} cannot be a class id: ids lie in 1…65535 without 255")
    for name in classes.values():
        try:
            class_name(name)
        except RepriError as error:
            raise RepriError(f"{path}: {error}") from None
    if not classes:
        raise RepriError(f"{path} names no class")
    if len(set(classes.values())) != len(classes):
        raise RepriError(f"{path}: a class is named twice")


def _samples_of(
    place: str | dict[str, str], path: Path, root: Path, ids: Mapping[str, int]
) -> tuple[tuple[Sample, ...], Source | None]:
    """Find the samples of a split, and what draws its masks if they are not files."""
    if isinstance(place, str):
        return listed_samples(root / place, root), None
    keys = set(place)
    if keys == {"images", "masks"}:
        return folder_samples(root / place["images"], root / place["masks"]), None
    if keys == {"coco", "images"}:
        return open_annotations(root / place["coco"], root / place["images"], ids)
    if keys == {"class_folders"}:
        return class_folder_samples(root / place["class_folders"], ids), None
    raise RepriError(
        f"{path}: a split is a list file, {{images, masks}}, {{coco, images}} or {{class_folders}}, "
        f"found {sorted(keys)}"
    )


def _folds_of(folds: Any, path: Path, ids: Mapping[str, int]) -> tuple[tuple[int, ...], ...]:
    """Divide the classes into folds: in blocks, in turn, or as named."""
    if isinstance(folds, dict):
        if set(folds) != {"interleaved"}:
            raise RepriError(f"{path}: folds is a number, {{interleaved: number}} or lists of names, found {folds}")
        return interleaved_folds(list(ids.values()), _fold_count(folds["interleaved"], path, ids))
    if isinstance(folds, int):
        return contiguous_folds(list(ids.values()), _fold_count(folds, path, ids))
    flat = [name for fold in folds for name in fold]
    for name in flat:
        if name not in ids:
            raise RepriError(f"{path}: folds name an unknown class {name!r}{nearest(name, list(ids))}")
    if not all(folds) or not folds or len(set(flat)) != len(flat):
        raise RepriError(f"{path}: every fold needs a class, and no class may be in two folds: {folds}")
    return tuple(tuple(ids[name] for name in fold) for fold in folds)


def _fold_count(count: int, path: Path, ids: Mapping[str, int]) -> int:
    """Refuse a number of folds that leaves one without a class."""
    if not 1 <= count <= len(ids):
        raise RepriError(f"{path}: {count} folds cannot be made of {len(ids)} classes")
    return count


def _colours_of(settings: Description, path: Path, ids: Mapping[str, int]) -> dict[tuple[int, int, int], int] | None:
    """The colours of painted masks; black is background unless another colour is."""
    if settings.masks != "colour":
        return None
    known = {"background": 0, "ignore": IGNORE, **ids}
    for name in settings.colours:
        if name not in known:
            raise RepriError(f"{path}: colours name an unknown class {name!r}{nearest(name, list(known))}")
    table = {tuple(rgb): known[name] for name, rgb in settings.colours.items()}
    return {(0, 0, 0): 0} | table if 0 not in table.values() else table
