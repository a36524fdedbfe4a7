"""Masks back into a project: files of every format that the page exports, alone or in a zip file."""

from __future__ import annotations

import io
import tempfile
import zipfile
from collections.abc import Callable, Iterable
from itertools import groupby
from pathlib import Path, PurePosixPath

import numpy as np

from repri.data.io.annotations import Annotations
from repri.data.io.formats import detect_format, read_annotated
from repri.data.io.masks import IGNORE, read_mask
from repri.data.io.outlines import check_outline, filled
from repri.runtime.errors import RepriError
from repri.runtime.reading import read_json, read_text

from .export import export_names
from .limits import Refused
from .marks import Annotation, region_mark
from .project import Project
from .session import Session

__all__ = ["import_masks"]

KINDS = (".png", ".json", ".txt")
"""Files that hold masks: PNG of class ids; COCO, LabelMe or Label Studio; YOLO."""
LABELME = "labelme"
FOLDERS = {".png": ("masks", ""), ".json": (LABELME, ""), ".txt": ("labels",)}
"""Where they lie in a zip file."""
Masks = dict[str, np.ndarray]


def import_masks(session: Session, files: Iterable[tuple[str, bytes]]) -> list[str]:
    """Take masks as annotations. The names of files and images are those of an export.

    Args:
        session: The project.
        files: Names and contents: PNG files of class ids, JSON files of COCO, LabelMe or Label Studio, text files of
            YOLO, or zip files of them. If there are several kinds, the first of these is taken.

    Returns:
        The images that are annotated now.
    """
    project = session.project
    with tempfile.TemporaryDirectory(dir=_room(project)) as place:
        paths = [path for name, content in files for path in _unpacked(name, content, project, Path(place))]
        masks = _read(project, paths)
    if not masks:
        raise Refused(422, "None of the masks has the name of an image: a mask of day1/a.jpg is named day1__a.png.")
    for id, mask in masks.items():
        _check(project, id, mask)
    for id, mask in masks.items():
        unlabelled = bool((mask == IGNORE).any())
        labels = [n for n in np.unique(mask).tolist() if n != IGNORE and (n > 0 or unlabelled)]
        marks = [region_mark(mask == n, n) for n in labels]
        revision = project.annotation(id).revision
        session.annotate(id, Annotation(marks=marks, complete=not unlabelled, revision=revision))
    return list(masks)


def _room(project: Project) -> Path:
    place = project.state("exports", "x").parent
    place.mkdir(parents=True, exist_ok=True)
    return place


def _unpacked(name: str, content: bytes, project: Project, place: Path) -> list[Path]:
    """Write the files that may hold masks into a folder; a zip file may not unpack to more than the limit."""
    if not content.startswith(b"PK"):
        return [_written(PurePosixPath(name.replace("\\", "/")), content, place)]
    paths, total = [], 0
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as packed:
            for entry in packed.infolist():
                path = PurePosixPath(entry.filename.replace("\\", "/"))
                folder = path.parent.name
                if ".." in path.parts or folder not in FOLDERS.get(path.suffix.lower(), ()):
                    continue
                total += entry.file_size
                if entry.file_size > project.limits.file or total > project.limits.unpacked:
                    raise Refused(413, f"{name} unpacks to more than the limit: send fewer masks at once.")
                with packed.open(entry) as file:
                    paths.append(_written(path, file.read(entry.file_size + 1), place))
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, OSError, ValueError) as error:
        if isinstance(error, Refused):
            raise
        raise Refused(415, "The zip file is damaged: export it again.") from None
    return paths


def _written(name: PurePosixPath, content: bytes, place: Path) -> Path:
    """A file of a name of our own, in a folder of its own; its stem is kept because masks are known by it."""
    suffix = name.suffix.lower() if name.suffix.lower() in KINDS else ".png"
    folder = place / f"{sum(1 for _ in place.iterdir())}"
    folder.mkdir()
    path = folder / f"{name.stem[:200].replace(chr(0), '')}{suffix}"
    path.write_bytes(content)
    return path


def _read(project: Project, paths: list[Path]) -> Masks:
    """The masks of the first kind of file that names images of the project."""
    known = {name: id for id, name in export_names(project).items()}
    readers: dict[str, Callable[[Project, list[Path], dict[str, str]], Masks]] = {
        ".png": _read_png,
        ".json": _read_json,
        ".txt": _read_yolo,
    }
    for suffix, files in groupby(sorted(paths, key=lambda p: KINDS.index(p.suffix)), key=lambda p: p.suffix):
        chosen, path = list(files), paths[0]
        try:
            masks = readers[suffix](project, chosen, known)
        except RepriError as error:
            sentence = str(error)
            for path in chosen:
                sentence = sentence.replace(str(path), path.name).replace(f"{path.parent}/", "")
            raise Refused(error.status if isinstance(error, Refused) else 415, sentence) from None
        if masks:
            return masks
    return {}


def _read_png(project: Project, paths: list[Path], known: dict[str, str]) -> Masks:
    return {
        known[path.stem]: read_mask(path, max_pixels=project.limits.pixels).astype(np.uint8)
        for path in paths
        if path.stem in known
    }


def _read_json(project: Project, paths: list[Path], known: dict[str, str]) -> Masks:
    """COCO and Label Studio hold all images in one file, LabelMe has a file for each; the first format counts."""
    ids = {item.name: n for n, item in enumerate(project.settings.classes, 1)}
    by_format: dict[str, Masks] = {}
    for path in paths:
        kind = detect_format(path)
        empty = _empty(project, path, kind, known)
        if kind == LABELME and (empty or path.stem not in known):
            drawn: Masks = {}
        else:
            drawn = _drawn(read_annotated(path, kind), ids, known)
        by_format.setdefault(kind, {}).update(empty | drawn)
    return next((masks for masks in by_format.values() if masks), {})


def _drawn(annotations: Annotations, ids: dict[str, int], known: dict[str, str]) -> Masks:
    return {known[item.image.stem]: item.ids(ids).astype(np.uint8) for item in annotations if item.image.stem in known}


def _empty(project: Project, path: Path, kind: str, known: dict[str, str]) -> Masks:
    """Images that a person has looked at and that show no object: readers of supports leave them out."""
    content, names = read_json(path), []
    if kind == LABELME and not content.get("shapes"):
        names = [path.stem]
    elif kind == "label-studio":
        tasks = [task for task in content if isinstance(task, dict)]
        names = [_stem(task.get("data")) for task in tasks if _says_nothing(task.get("annotations"))]
    return {known[name]: np.zeros(project.size(known[name]), np.uint8) for name in names if name in known}


def _says_nothing(annotations: object) -> bool:
    return isinstance(annotations, list) and any(isinstance(a, dict) and a.get("result") == [] for a in annotations)


def _stem(data: object) -> str:
    return PurePosixPath(str(data.get("image", ""))).stem if isinstance(data, dict) else ""


def _read_yolo(project: Project, paths: list[Path], known: dict[str, str]) -> Masks:
    """A class from 0 on and an outline in fractions of width and height in each line; later lines lie on top."""
    masks: Masks = {}
    for path in paths:
        if path.stem not in known:
            continue
        height, width = project.size(known[path.stem])
        mask = np.zeros((height, width), np.uint8)
        for number, line in enumerate(read_text(path).splitlines(), 1):
            try:
                label, *values = line.split()
                points = np.array(values, np.float64).reshape(-1, 2) * (width, height)
                id = int(label) + 1
            except (ValueError, OverflowError):
                raise RepriError(f"{path.name}, line {number}: it is not a class and an outline, as YOLO has") from None
            if not 1 <= id < IGNORE or len(points) < 3:
                raise RepriError(f"{path.name}, line {number}: it needs a class and at least three points") from None
            check_outline(points, height, width)
            mask[filled(points, height, width)] = id
        masks[known[path.stem]] = mask
    return masks


def _check(project: Project, id: str, mask: np.ndarray) -> None:
    """A mask must fit the image and the classes."""
    (height, width), name = project.size(id), project.image(id).name
    if mask.shape != (height, width):
        raise Refused(
            422, f"The mask of {name} has {mask.shape[1]}×{mask.shape[0]} pixels and the image {width}×{height}."
        )
    most = len(project.settings.classes)
    wrong = [int(n) for n in np.unique(mask) if most < n != IGNORE]
    if wrong:
        raise Refused(
            422, f"The mask of {name} holds the label {wrong[0]} and there are {most} classes: add them first."
        )
