"""PASCAL-5i and COCO-20i in the folders that ``repri data get`` makes, which are those of the field's repositories.

PASCAL has ``lists/pascal/SPLIT.txt``. COCO has two sets of masks, each with its own lists: all polygons of an object
(``lists/coco``), and only its first one (``lists/coco-official``).
"""

from __future__ import annotations

from pathlib import Path

from repri.data.io.classes import COCO, PASCAL, number_classes
from repri.runtime.errors import RepriError
from repri.runtime.reading import read_json, validated

from .dataset import Dataset
from .folds import COCO_FOLDS, PASCAL_FOLDS
from .samples import listed_samples

__all__ = ["KNOWN", "SPLITS", "list_folder", "open_known"]

KNOWN = ("pascal", "coco")
SPLITS = ("train", "val")


def list_folder(name: str, first_polygon_only: bool = False) -> str:
    """Return the folder of a data set's lists, relative to its root.

    Args:
        name: ``pascal`` or ``coco``.
        first_polygon_only: Choose COCO's masks that show only the first polygon of each object.

    Returns:
        The folder.

    Example:
        >>> list_folder("coco", first_polygon_only=True)
        'lists/coco-official'
    """
    return "lists/coco-official" if name == "coco" and first_polygon_only else f"lists/{name}"


def open_known(name: str, root: Path, split: str, first_polygon_only: bool = False) -> Dataset:
    """Open PASCAL-5i or COCO-20i.

    Args:
        name: ``pascal`` or ``coco``.
        root: The folder that ``repri data get`` filled.
        split: ``train`` or ``val``.
        first_polygon_only: Open COCO with the masks that show only the first polygon of each object.

    Returns:
        The data set.
    """
    command = f"repri data get {name} --root {root}"
    if not root.is_dir():
        raise RepriError(f"there is no folder {root}: make it with `{command}`")
    if split not in SPLITS:
        raise RepriError(f"{name} has the splits train and val, not {split!r}")
    path = root / list_folder(name, first_polygon_only) / f"{split}.txt"
    if not path.is_file():
        raise RepriError(f"{root} is not laid out as {name}: {path} is missing; `{command}` makes it")
    classes, folds = (PASCAL, PASCAL_FOLDS) if name == "pascal" else (COCO, COCO_FOLDS)
    return Dataset(
        name=name,
        split=split,
        root=root,
        classes=number_classes(classes),
        samples=listed_samples(path, root),
        folds=folds,
        class_files=_read_class_files(path.with_name(f"{split}_class_files_origres.json")),
    )


def _read_class_files(path: Path) -> dict[int, frozenset[str]] | None:
    """Read which images hold enough of which class, as counted before the images were reduced; None if not given."""
    if not path.is_file():
        return None
    try:
        return validated(dict[int, frozenset[str]], read_json(path), "it")
    except RepriError as error:
        raise RepriError(f"{path} is not a JSON mapping of class ids to image names ({error}): remove it") from None
