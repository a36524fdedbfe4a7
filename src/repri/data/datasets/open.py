"""Opening a data set: ``pascal`` and ``coco`` as ``repri data get`` lays them out (which is how the field's
repositories do), and any other through a small YAML file::

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

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from repri.data.io.coco import open_annotations
from repri.data.io.images import IGNORE, MaskKind
from repri.runtime.settings import nearest, parse, read_yaml

from .dataset import Dataset, Sample, Source, class_folders, pairs_in, read_list
from .folds import COCO, PASCAL, Protocol, contiguous_folds, interleaved_folds, numbered
from .scenes import scenes_file

__all__ = ["open_dataset", "splits_of"]


def open_dataset(
    name: str | Path, root: Path | str | None = None, split: str = "val", protocol: Protocol = "clean"
) -> Dataset:
    """``pascal`` or ``coco`` under ``root``, the generated ``scenes``, or the data set that a YAML file describes."""
    if str(name) in ("pascal", "coco"):
        if root is None:
            raise ValueError(f"{name} needs --root, the folder that `repri data get {name} --root FOLDER` fills")
        return _open_known(str(name), _checked_root(Path(root).expanduser(), str(name)), split, protocol)
    return _open_yaml(_checked_yaml(name), None if root is None else Path(root).expanduser(), split)


def splits_of(name: str | Path) -> tuple[str, ...]:
    """The splits that a data set has."""
    if str(name) in ("pascal", "coco"):
        return ("train", "val")
    path = _checked_yaml(name)
    splits = parse(_Yaml, read_yaml(path), str(path)).splits
    if not splits:
        raise ValueError(f"{path} names no split: give at least one, such as val: lists/val.txt")
    return tuple(splits)


def _checked_yaml(name: str | Path) -> Path:
    path = scenes_file() if str(name) == "scenes" else Path(name).expanduser()
    if path.suffix not in (".yaml", ".yml"):
        raise ValueError(
            f"no data set named {str(name)!r}: give pascal, coco, scenes or a YAML file that describes yours"
        )
    return path


def _checked_root(root: Path, name: str) -> Path:
    if not root.is_dir():
        raise ValueError(f"there is no folder {root}: make it with `repri data get {name} --root {root}`")
    return root


def _open_known(name: str, root: Path, split: str, protocol: Protocol) -> Dataset:
    if split not in ("train", "val"):
        raise ValueError(f"{name} has the splits train and val, not {split!r}")
    folder = "coco-official" if name == "coco" and protocol == "official" else name
    path = root / "lists" / folder / f"{split}.txt"
    if not path.is_file():
        made = f"repri data get {name} --root {root}"
        raise ValueError(f"{root} is not laid out as {name}: {path} is missing; `{made}` makes it")
    names = PASCAL if name == "pascal" else COCO
    ids = list(numbered(names))
    return Dataset(
        name=name,
        split=split,
        root=root,
        classes=numbered(names),
        samples=read_list(path, root),
        folds=contiguous_folds(ids, 4) if name == "pascal" else interleaved_folds(ids, 4),
        class_files=_read_class_files(path.with_name(f"{split}_class_files_origres.json")),
    )


def _read_class_files(path: Path) -> dict[int, frozenset[str]] | None:
    """Lists of who holds enough of which class, made before the images were reduced; None if there are none."""
    if not path.is_file():
        return None
    try:
        return {int(id): frozenset(names) for id, names in json.loads(path.read_text()).items()}
    except (ValueError, AttributeError, TypeError) as error:
        raise ValueError(f"{path} is not a JSON mapping of class ids to image names ({error}): remove it") from None


@dataclass
class _Yaml:
    """The settings of a YAML file."""

    name: str
    classes: list[str] | dict[int, str]
    splits: dict[str, str | dict[str, str]]
    root: str = "."
    masks: MaskKind = "index"
    colours: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    folds: int | dict[str, int] | list[list[str]] = 1


def _open_yaml(path: Path, root: Path | None, split: str) -> Dataset:
    settings = parse(_Yaml, read_yaml(path), str(path))
    root = path.parent / settings.root if root is None else root
    if not root.is_dir():
        raise ValueError(f"{path}: there is no folder {root}: correct root, or give --root")
    if split not in settings.splits:
        raise ValueError(f"{path} has the splits {', '.join(settings.splits)}, not {split!r}")
    classes = settings.classes if isinstance(settings.classes, dict) else numbered(settings.classes)
    wrong = [id for id in classes if id < 1 or id == IGNORE or id > 65535]
    if wrong or len(set(classes.values())) != len(classes):
        problem = (
            f"{wrong[0]} cannot be a class id: ids lie in 1…65535 without 255" if wrong else "a class is named twice"
        )
        raise ValueError(f"{path}: {problem}")
    ids_by_name = {name: id for id, name in classes.items()}
    place = settings.splits[split]
    samples, source = _samples_of(place, path, root, ids_by_name)
    return Dataset(
        name=settings.name,
        split=split,
        root=root,
        classes=classes,
        samples=samples,
        folds=_folds_of(settings.folds, path, ids_by_name),
        masks="binary" if any(sample.class_id for sample in samples) else settings.masks,
        colours=_colours_of(settings, path, ids_by_name),
        source=source,
        mask_folder=root / place["masks"] if isinstance(place, dict) and "masks" in place else None,
    )


def _samples_of(
    place: str | dict[str, str], path: Path, root: Path, ids: Mapping[str, int]
) -> tuple[tuple[Sample, ...], Source | None]:
    if isinstance(place, str):
        return read_list(root / place, root), None
    keys = set(place)
    if keys == {"images", "masks"}:
        return pairs_in(root / place["images"], root / place["masks"]), None
    if keys == {"coco", "images"}:
        return open_annotations(root / place["coco"], root / place["images"], ids)
    if keys == {"class_folders"}:
        return class_folders(root / place["class_folders"], ids), None
    raise ValueError(
        f"{path}: a split is a list file, {{images, masks}}, {{coco, images}} or {{class_folders}}, "
        f"found {sorted(keys)}"
    )


def _folds_of(folds: Any, path: Path, ids: Mapping[str, int]) -> tuple[tuple[int, ...], ...]:
    if isinstance(folds, dict):
        if set(folds) != {"interleaved"}:
            raise ValueError(f"{path}: folds is a number, {{interleaved: number}} or lists of names, found {folds}")
        return interleaved_folds(list(ids.values()), _fold_count(folds["interleaved"], path, ids))
    if isinstance(folds, int):
        return contiguous_folds(list(ids.values()), _fold_count(folds, path, ids))
    for name in (name for fold in folds for name in fold):
        if name not in ids:
            raise ValueError(f"{path}: folds name an unknown class {name!r}{nearest(name, list(ids))}")
    flat = [name for fold in folds for name in fold]
    if not all(folds) or not folds or len(set(flat)) != len(flat):
        raise ValueError(f"{path}: every fold needs a class, and no class may be in two folds: {folds}")
    return tuple(tuple(ids[name] for name in fold) for fold in folds)


def _fold_count(count: int, path: Path, ids: Mapping[str, int]) -> int:
    if not 1 <= count <= len(ids):
        raise ValueError(f"{path}: {count} folds cannot be made of {len(ids)} classes")
    return count


def _colours_of(settings: _Yaml, path: Path, ids: Mapping[str, int]) -> dict[tuple[int, int, int], int] | None:
    if settings.masks != "colour":
        return None
    known = {"background": 0, "ignore": IGNORE, **ids}
    for name in settings.colours:
        if name not in known:
            raise ValueError(f"{path}: colours name an unknown class {name!r}{nearest(name, list(known))}")
    table = {tuple(rgb): known[name] for name, rgb in settings.colours.items()}
    return {(0, 0, 0): 0} | table if 0 not in table.values() else table
