"""PASCAL-5i from VOC 2012 and SBD: downloaded, unpacked, prepared, listed.

Every step can be interrupted and run again. The list files are written last, so a split that has its list is complete.
The root has ``JPEGImages``, ``SegmentationClass``, ``ImageSets`` and ``sbd/*.mat``, from which ``SegmentationClassAug``
and ``lists/pascal`` are made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

import numpy as np

from repri.data.datasets.dataset import Sample
from repri.data.datasets.known import list_folder
from repri.data.datasets.samples import listed_samples
from repri.data.io.masks import read_mask, write_mask
from repri.runtime.errors import MissingExtraError, RepriError
from repri.runtime.parallel import parallel
from repri.runtime.reading import read_text

from .downloads import Downloads, write_lines

__all__ = ["get_pascal", "prepare_pascal"]


def get_pascal(downloads: Downloads, lists: Mapping[str, Path] | None = None, keep_archives: bool = False) -> None:
    """Download VOC 2012 and SBD and prepare PASCAL-5i.

    Args:
        downloads: The folder to fill and where the archives come from.
        lists: Split → a list file of the user's own (lines ``image mask``) that replaces the built one.
        keep_archives: Keep the archives after they are unpacked.
    """
    downloads.unpack("voc", _voc_place)
    downloads.unpack("sbd", _sbd_place)
    prepare_pascal(downloads, downloads.fetch("sbd-train"), lists)
    if not keep_archives:
        downloads.remove("voc", "sbd")


def _voc_place(name: str) -> str | None:
    """The place of a member of VOC's archive: images, masks of classes, and lists of segmentation."""
    path = PurePosixPath(name)
    inside = path.parts[2:] if path.parts[:2] == ("VOCdevkit", "VOC2012") else ()
    if inside[:1] in (("JPEGImages",), ("SegmentationClass",)) or inside[:2] == ("ImageSets", "Segmentation"):
        return "/".join(inside)
    return None


def _sbd_place(name: str) -> str | None:
    """The place of a member of SBD's archive: the masks of classes."""
    path = PurePosixPath(name)
    if path.parts[-3:-1] == ("dataset", "cls") and path.suffix == ".mat":
        return f"sbd/{path.name}"
    return None


def prepare_pascal(downloads: Downloads, noval: Path, lists: Mapping[str, Path] | None = None) -> None:
    """Make ``SegmentationClassAug`` from VOC's masks and, for images without one, SBD's; then write the lists.

    The split train has SBD's training images outside VOC's validation set, which are the 5,623 images of ``noval``,
    and then VOC's training images that are not among them: 5,953 in all. The split val is VOC's, 1,449 images.
    trainaug has all images of both but val: 10,582.

    Args:
        downloads: The folder, with everything unpacked.
        noval: SBD's list ``train_noval.txt``.
        lists: Split → a list file of the user's own that replaces the built one.
    """
    root = downloads.root
    voc = {split: _read_ids(root / "ImageSets" / "Segmentation" / f"{split}.txt") for split in ("train", "val")}
    sbd = sorted(path.stem for path in (root / "sbd").glob("*.mat"))
    if not sbd:
        raise RepriError(f"there are no SBD masks (*.mat) in {root / 'sbd'}: `repri data get pascal` puts them there")
    own = {split: listed_samples(path, root) for split, path in (lists or {}).items()}  # read before the long work
    in_voc = voc["train"] + voc["val"]
    _write_masks(downloads, in_voc, [id for id in sbd if id not in set(in_voc)])
    first = _read_ids(noval)
    built = {
        "train": first + [id for id in voc["train"] if id not in set(first)],
        "val": voc["val"],
        "trainaug": [id for id in sorted({*sbd, *voc["train"]}) if id not in set(voc["val"])],
    }
    known = {*in_voc, *sbd}
    for split, ids in built.items():
        if strange := [id for id in ids if id not in known]:
            raise RepriError(f"{noval} names {strange[0]}, for which neither VOC nor SBD has a mask: get it again")
        lines = [f"JPEGImages/{id}.jpg SegmentationClassAug/{id}.png" for id in ids]
        if split in own:
            lines = [_line(sample, root) for sample in own[split]]
        write_lines(lines, root / list_folder("pascal") / f"{split}.txt")


def _write_masks(downloads: Downloads, in_voc: Sequence[str], in_sbd: Sequence[str]) -> None:
    """Write the masks that are not there yet."""
    root = downloads.root
    sources = [root / "SegmentationClass" / f"{id}.png" for id in in_voc]
    sources += [root / "sbd" / f"{id}.mat" for id in in_sbd]

    def write(source: Path) -> None:
        target = root / "SegmentationClassAug" / f"{source.stem}.png"
        if not target.is_file():
            write_mask(_read_sbd(source) if source.suffix == ".mat" else read_mask(source), target)

    for _ in downloads.counted("write SegmentationClassAug", parallel(write, sources), len(sources)):
        pass


def _line(sample: Sample, root: Path) -> str:
    """The line of a list file, with paths relative to the root if they are inside it."""
    assert sample.mask is not None
    paths = (sample.image, sample.mask)
    return " ".join(str(path.relative_to(root) if path.is_relative_to(root) else path) for path in paths)


def _read_ids(path: Path) -> list[str]:
    """Read a list of image ids."""
    try:
        ids = read_text(path).split()
    except RepriError as error:
        raise RepriError(f"{error}; `repri data get pascal` puts it there") from None
    if not ids:
        raise RepriError(f"{path} is empty: get it again")
    return ids


def _read_sbd(path: Path) -> np.ndarray:
    """Read the class ids [H, W] uint8 of an SBD mask, ``cls/*.mat``."""
    try:
        from scipy.io import loadmat
        from scipy.io.matlab import MatReadError
    except ImportError:
        raise MissingExtraError(
            "SBD's masks are MATLAB files: pip install 'repri[data]' brings scipy, which reads them"
        ) from None
    try:
        return loadmat(path)["GTcls"][0]["Segmentation"][0].astype(np.uint8)
    except (KeyError, IndexError, ValueError, TypeError, OSError, MatReadError) as error:
        raise RepriError(f"{path} is not an SBD mask ({error}): remove it and its archive's .unpacked file") from None
