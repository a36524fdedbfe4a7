"""A data set: pictures with masks of class ids, the classes' names, and the folds over them.

Three kinds are known by name or file: ``pascal`` and ``coco`` as ``repri data get`` lays them out
(which is how the field's repositories do), and any other through a small YAML file::

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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from repri.settings import nearest, parse, read_yaml

from .folds import (
    COCO,
    PASCAL,
    Protocol,
    contiguous_folds,
    interleaved_folds,
    numbered,
)
from .images import IGNORE, IMAGE_SUFFIXES, MASK_SUFFIXES, MaskKind, check_same_size, read_image, read_mask

__all__ = [
    "Dataset",
    "Sample",
    "Source",
    "images_in",
    "open_dataset",
    "open_folder",
    "pairs_in",
    "read_list",
    "splits_of",
]


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
        """[H, W] class ids."""
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
        image, mask = self.image(id), self.mask(id)
        check_same_size(image, mask, self[id].image, self[id].mask or f"the annotation of {id}")
        return image, mask

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


def open_dataset(
    name: str | Path, root: Path | str | None = None, split: str = "val", protocol: Protocol = "clean"
) -> Dataset:
    """``pascal`` or ``coco`` under ``root``, or the data set that a YAML file describes."""
    if str(name) in ("pascal", "coco"):
        if root is None:
            raise ValueError(f"{name} needs --root, the folder that `repri data get {name} --root FOLDER` fills")
        return _open_known(str(name), _checked_root(Path(root), str(name)), split, protocol)
    path = Path(name)
    if path.suffix not in (".yaml", ".yml"):
        raise ValueError(f"no data set named {str(name)!r}: give pascal, coco or a YAML file that describes yours")
    return _open_yaml(path, None if root is None else Path(root), split)


def splits_of(name: str | Path) -> tuple[str, ...]:
    """The splits that a data set has."""
    if str(name) in ("pascal", "coco"):
        return ("train", "val")
    return tuple(parse(_Yaml, read_yaml(Path(name)), str(name)).splits)


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


def read_list(path: Path, root: Path) -> tuple[Sample, ...]:
    """The samples of a list file: ``image mask`` on each line, relative to ``root``."""
    try:
        lines = path.read_text().splitlines()
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
        pairs.append((root / parts[0], root / parts[1]))
    if not pairs:
        raise ValueError(f"the list {path} is empty: it needs a line `image mask` for each image")
    return _named(pairs, path)


def _named(pairs: Sequence[tuple[Path, Path | None]], where: Path) -> tuple[Sample, ...]:
    """Samples with the shortest ids that tell them apart."""
    for depth in (1, 2, 3, 4):
        ids = ["/".join((*image.parts[-depth:-1], image.stem)) for image, _ in pairs]
        if len(set(ids)) == len(ids):
            return tuple(Sample(id, image, mask) for id, (image, mask) in zip(ids, pairs, strict=True))
    doubled = next(image for i, (image, _) in enumerate(pairs) if ids.index(ids[i]) != i)
    raise ValueError(f"{where} names {doubled} twice: keep one of the lines")


def images_in(folder: Path) -> list[Path]:
    """The pictures of a folder, sorted by name."""
    if not folder.is_dir():
        raise ValueError(f"there is no folder {folder}")
    return sorted(p for p in folder.iterdir() if p.suffix.lower() in IMAGE_SUFFIXES and not p.name.startswith("."))


def pairs_in(images: Path, masks: Path) -> tuple[Sample, ...]:
    """The samples of two folders: each picture with the mask of the same name, which verification looks for."""
    pictures = images_in(images)
    if not pictures:
        raise ValueError(f"there are no images in {images}")
    if not masks.is_dir():
        raise ValueError(f"there is no folder {masks}")
    found = {path.stem: path for path in sorted(masks.iterdir()) if path.suffix.lower() in MASK_SUFFIXES}
    return _named([(path, found.get(path.stem, masks / f"{path.stem}.png")) for path in pictures], images)


def open_folder(root: Path, classes: Sequence[str] | None = None, masks: MaskKind = "auto") -> Dataset:
    """``root/images`` + ``root/masks``; the classes' names from ``root/classes.txt``, else by number."""
    samples = pairs_in(root / "images", root / "masks")
    names_file = root / "classes.txt"
    if classes is None and names_file.is_file():
        classes = [line.strip() for line in names_file.read_text().splitlines() if line.strip()]
    if classes is None:
        ids = set()
        for sample in samples:
            ids |= set(np.unique(read_mask(sample.mask, masks)).tolist())  # ty: ignore[invalid-argument-type]
        known = {id: f"class {id}" for id in sorted(ids - {0, IGNORE})}
    else:
        known = numbered(list(classes))
    return Dataset(root.name, "all", root, known, samples, (tuple(known),), masks, mask_folder=root / "masks")


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
        problem = f"{wrong[0]} cannot be a class id (0 and 255 have a meaning)" if wrong else "a class is named twice"
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
        from .coco import open_annotations

        return open_annotations(root / place["coco"], root / place["images"], ids)
    if keys == {"class_folders"}:
        return _class_folders(root / place["class_folders"], ids), None
    raise ValueError(
        f"{path}: a split is a list file, {{images, masks}}, {{coco, images}} or {{class_folders}}, "
        f"found {sorted(keys)}"
    )


def _class_folders(root: Path, ids: Mapping[str, int]) -> tuple[Sample, ...]:
    """``CLASS/x.jpg`` with the two-level mask ``CLASS/x.png``."""
    samples = []
    for name, id in ids.items():
        pictures = [p for p in images_in(root / name) if p.suffix.lower() != ".png"]
        if not pictures:
            raise ValueError(f"the class folder {root / name} holds no images (x.jpg with its mask x.png)")
        samples += [Sample(f"{name}/{image.stem}", image, image.with_suffix(".png"), id) for image in pictures]
    return tuple(samples)


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
