"""PASCAL-5i and COCO-20i from their publishers: downloaded, unpacked, prepared, listed.

Every step can be interrupted and run again; a list file is written last, so a split that has its list
is complete.

PASCAL    root/JPEGImages, SegmentationClass, ImageSets, sbd/*.mat → SegmentationClassAug, lists/pascal
COCO      root/train2014, val2014, annotations → masks, masks-official, lists/coco, lists/coco-official
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import numpy as np

from repri.data.datasets.dataset import read_list
from repri.data.datasets.folds import COCO, numbered
from repri.data.io.coco import CocoAnnotations, CocoImage, MaskStyle, draw_mask, has_objects, read_annotations
from repri.data.io.images import read_mask, write_mask
from repri.runtime.download import fetch
from repri.runtime.files import atomic, check_writable
from repri.runtime.parallel import parallel

from .archives import extract

__all__ = ["SOURCES", "Archive", "get_coco", "get_pascal", "prepare_coco", "prepare_pascal"]

Report = Callable[[str, int, int], None]
"""Called with what is being done, how far it is and how far it goes."""


class Archive(NamedTuple):
    url: str
    digest: str
    """sha256, or md5 where the publisher's file is known by nothing else."""
    size: int
    """Bytes."""

    @property
    def file(self) -> str:
        return self.url.rsplit("/", 1)[-1]


_COCO = "http://images.cocodataset.org"
SOURCES: dict[str, Archive] = {
    "voc": Archive(
        "http://host.robots.ox.ac.uk/pascal/VOC/voc2012/VOCtrainval_11-May-2012.tar",
        "e14f763270cf193d0b5f74b169f44157a4b0c6efa708f4dd0ff78ee691763bcb",
        1_999_639_040,
    ),
    "sbd": Archive(
        "https://www2.eecs.berkeley.edu/Research/Projects/CS/vision/grouping/semantic_contours/benchmark.tgz",
        "md5:82b4d87ceb2ed10f6038a1cba92111cb",
        1_419_539_633,
    ),
    "sbd-train": Archive(
        "https://www.cs.cornell.edu/~bharathh/train_noval.txt", "md5:79bff800c5f0b1ec6b21080a3c066722", 67_476
    ),
    "coco-train": Archive(
        f"{_COCO}/zips/train2014.zip",
        "ede4087e640bddba550e090eae701092534b554b42b05ac33f0300b984b31775",
        13_510_573_713,
    ),
    "coco-val": Archive(
        f"{_COCO}/zips/val2014.zip",
        "fe9be816052049c34717e077d9e34aa60814a55679f804cd043e3cbee3b9fde0",
        6_645_013_297,
    ),
    "coco-annotations": Archive(
        f"{_COCO}/annotations/annotations_trainval2014.zip",
        "031296bbc80c45a1d1f76bf9a90ead27e94e99ec629208449507a4917a3bf009",
        252_872_794,
    ),
}
"""Where the publishers keep their archives, and how to tell the right file."""


def get_pascal(
    root: Path,
    report: Report | None = None,
    sources: Mapping[str, Archive] | None = None,
    mirror: str | None = None,
    lists: Mapping[str, Path] | None = None,
    keep_archives: bool = False,
) -> None:
    """VOC 2012 and SBD under ``root``, prepared.

    ``lists``: split → a list file of your own (lines ``image mask``) to take instead of the built one.
    """
    _unpack(root, "voc", _voc_place, report, sources, mirror)
    _unpack(root, "sbd", _sbd_place, report, sources, mirror)
    _fetch(root, "sbd-train", report, sources, mirror)
    noval = root / "archives" / (sources or SOURCES)["sbd-train"].file
    prepare_pascal(root, noval, report, lists)
    if not keep_archives:
        _remove_archives(root, ("voc", "sbd"), sources)


def get_coco(
    root: Path,
    report: Report | None = None,
    sources: Mapping[str, Archive] | None = None,
    mirror: str | None = None,
    keep_archives: bool = False,
) -> None:
    """COCO 2014 under ``root``, prepared for all protocols."""
    _unpack(root, "coco-annotations", _annotations_place, report, sources, mirror)
    for split in ("train", "val"):
        _unpack(root, f"coco-{split}", lambda name, split=split: _coco_place(name, split), report, sources, mirror)
    prepare_coco(root, report)
    if not keep_archives:
        _remove_archives(root, ("coco-annotations", "coco-train", "coco-val"), sources)


def _fetch(
    root: Path, name: str, report: Report | None, sources: Mapping[str, Archive] | None, mirror: str | None
) -> Path:
    archive = (sources or SOURCES)[name]
    path = root / "archives" / archive.file
    url = archive.url if mirror is None else f"{mirror.rstrip('/')}/{archive.file}"
    if not path.is_file():
        check_writable(path)
        part = path.with_name(path.name + ".part")
        missing = archive.size - (part.stat().st_size if part.is_file() else 0)
        free = shutil.disk_usage(path.parent).free
        if free < missing:
            raise ValueError(
                f"{archive.file} needs {missing / 1e9:.1f} GB, {path.parent} has {free / 1e9:.1f} GB free: make room"
            )
    return fetch(url, path, archive.digest, (lambda *p: report(f"get {archive.file}", *p)) if report else None)


def _unpack(
    root: Path,
    name: str,
    place: Callable[[str], str | None],
    report: Report | None,
    sources: Mapping[str, Archive] | None,
    mirror: str | None,
) -> None:
    """Fetch and unpack one archive, unless that was finished before."""
    archive = (sources or SOURCES)[name]
    done = root / "archives" / f"{archive.file}.unpacked"
    if done.is_file():
        return
    path = _fetch(root, name, report, sources, mirror)
    count = extract(path, root, place, (lambda *p: report(f"unpack {archive.file}", *p)) if report else None)
    with atomic(done) as temporary:
        temporary.write_text(f"{count} files\n")


def _remove_archives(root: Path, names: Iterable[str], sources: Mapping[str, Archive] | None) -> None:
    for name in names:
        (root / "archives" / (sources or SOURCES)[name].file).unlink(missing_ok=True)


def _voc_place(name: str) -> str | None:
    path = PurePosixPath(name)
    inside = path.parts[2:] if path.parts[:2] == ("VOCdevkit", "VOC2012") else ()
    if inside[:1] in (("JPEGImages",), ("SegmentationClass",)) or inside[:2] == ("ImageSets", "Segmentation"):
        return "/".join(inside)
    return None


def _sbd_place(name: str) -> str | None:
    path = PurePosixPath(name)
    if path.parts[-3:-1] == ("dataset", "cls") and path.suffix == ".mat":
        return f"sbd/{path.name}"
    return None


def _annotations_place(name: str) -> str | None:
    return name if name in ("annotations/instances_train2014.json", "annotations/instances_val2014.json") else None


def _coco_place(name: str, split: str) -> str | None:
    return name if name.startswith(f"{split}2014/") and name.endswith(".jpg") else None


def prepare_pascal(
    root: Path, noval: Path, report: Report | None = None, lists: Mapping[str, Path] | None = None
) -> None:
    """SegmentationClassAug from VOC's masks and, where VOC has none, SBD's; then the lists.

    train: SBD's training images outside VOC's validation set (``noval``, 5,623 of them), then VOC's training
    images that are not among them: 5,953. val: VOC's, 1,449. trainaug: all of both without val, 10,582.
    """
    sets = root / "ImageSets" / "Segmentation"
    voc = {split: _read_ids(sets / f"{split}.txt") for split in ("train", "val")}
    sbd = sorted(path.stem for path in (root / "sbd").glob("*.mat"))
    if not sbd:
        raise ValueError(f"there are no SBD masks (*.mat) in {root / 'sbd'}: `repri data get pascal` puts them there")
    given = {split: read_list(path, root) for split, path in (lists or {}).items()}  # mistakes in them are found first
    from_voc = voc["train"] + voc["val"]
    in_voc = set(from_voc)
    jobs = [(id, root / "SegmentationClass" / f"{id}.png") for id in from_voc]
    jobs += [(id, root / "sbd" / f"{id}.mat") for id in sbd if id not in in_voc]

    def write(job: tuple[str, Path]) -> None:
        id, source = job
        target = root / "SegmentationClassAug" / f"{id}.png"
        if not target.is_file():
            write_mask(_read_sbd(source) if source.suffix == ".mat" else read_mask(source), target)

    for done, _ in enumerate(parallel(write, jobs), 1):
        if report:
            report("write SegmentationClassAug", done, len(jobs))
    first = _read_ids(noval)
    val = set(voc["val"])
    built = {
        "train": first + [id for id in voc["train"] if id not in set(first)],
        "val": voc["val"],
        "trainaug": [id for id in sorted({*sbd, *voc["train"]}) if id not in val],
    }
    known = in_voc | set(sbd)
    for split, ids in built.items():
        strange = [id for id in ids if id not in known]
        if strange:
            raise ValueError(f"{noval} names {strange[0]}, for which neither VOC nor SBD has a mask: get it again")
        lines = [f"JPEGImages/{id}.jpg SegmentationClassAug/{id}.png" for id in ids]
        if split in given:
            lines = [f"{_relative(s.image, root)} {_relative(s.mask, root)}" for s in given[split]]
        _write_lines(lines, root / "lists" / "pascal" / f"{split}.txt")


def _relative(path: Path | None, root: Path) -> Path:
    assert path is not None
    return path.relative_to(root) if path.is_relative_to(root) else path


def _read_ids(path: Path) -> list[str]:
    try:
        ids = path.read_text().split()
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror}; `repri data get pascal` puts it there") from None
    if not ids:
        raise ValueError(f"{path} is empty: get it again")
    return ids


def _read_sbd(path: Path) -> np.ndarray:
    """[H, W] uint8 of an SBD ``cls/*.mat``."""
    try:
        from scipy.io import loadmat
        from scipy.io.matlab import MatReadError
    except ImportError:
        raise ImportError(
            "SBD's masks are MATLAB files: pip install 'repri[data]' brings scipy, which reads them"
        ) from None
    try:
        return loadmat(path)["GTcls"][0]["Segmentation"][0].astype(np.uint8)
    except (KeyError, IndexError, ValueError, TypeError, OSError, MatReadError) as error:
        raise ValueError(f"{path} is not an SBD mask ({error}): remove it and its archive's .unpacked file") from None


def prepare_coco(
    root: Path, report: Report | None = None, styles: tuple[MaskStyle, ...] = ("clean", "official")
) -> None:
    """Masks and lists from the annotations; a list has every image with at least one object that is no crowd."""
    for split in ("train", "val"):
        path = root / "annotations" / f"instances_{split}2014.json"
        annotations = read_annotations(path)
        ids = _coco_ids(annotations, path)
        images = [image for image in annotations.images if has_objects(image, ids)]
        for style in styles:
            folder = "masks" if style == "clean" else f"masks-{style}"

            def write(image: CocoImage, style: MaskStyle = style, folder: str = f"{folder}/{split}2014") -> str:
                mask = f"{folder}/{image.stem}.png"
                if not (root / mask).is_file():
                    write_mask(draw_mask(image, ids, style), root / mask)  # noqa: B023
                return f"{split}2014/{image.file} {mask}"  # noqa: B023

            lines = []
            for line in parallel(write, images):
                lines.append(line)
                if report:
                    report(f"draw {style} masks of {split}2014", len(lines), len(images))
            _write_lines(lines, root / "lists" / ("coco" if style == "clean" else f"coco-{style}") / f"{split}.txt")


def _coco_ids(annotations: CocoAnnotations, path: Path) -> dict[int, int]:
    """Category id → 1…80, by name; the order of the category ids gives the same."""
    by_name = {name: id for id, name in numbered(COCO).items()}
    unknown = [name for name in annotations.names.values() if name not in by_name]
    if unknown:
        raise ValueError(
            f"{path} has the category {unknown[0]!r}, which COCO does not have: use a YAML file for your own"
        )
    return {category: by_name[name] for category, name in annotations.names.items()}


def _write_lines(lines: list[str], path: Path) -> None:
    with atomic(path) as temporary:
        temporary.write_text("\n".join(lines) + "\n")
