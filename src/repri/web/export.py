"""Results as files of the usual annotation formats."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Literal

import numpy as np
from PIL import Image

from repri.data.io.annotations import AnnotatedImage, Annotations, shapes_of
from repri.data.io.formats import write_annotated
from repri.data.io.masks import write_mask
from repri.data.io.outlines import polygons_of
from repri.runtime.draw import overlay
from repri.runtime.files import new_folder

from .limits import Refused
from .project import RESULTS, Project
from .session import Session
from .support import with_marks

__all__ = ["FORMATS", "Format", "archive", "export_names", "masks_to_export", "write_into_folder"]

Format = Literal["masks", "overlays", "coco", "labelme", "yolo", "label-studio"]
FORMATS: tuple[Format, ...] = ("masks", "overlays", "coco", "labelme", "yolo", "label-studio")


def export_names(project: Project) -> dict[str, str]:
    """Image → a file name without suffix that no other image has, made of its path in the folder."""
    names: dict[str, str] = {}
    taken: set[str] = set()
    for id, image in project.images.items():
        plain = PurePosixPath(image.name).with_suffix("").as_posix().replace("/", "__")
        plain = "".join("_" if c in '\\:*?"<>|#%' or not c.isprintable() else c for c in plain)[:120] or "image"
        name, count = plain, 1
        while name.lower() in taken:
            count += 1
            name = f"{plain}-{count}"
        taken.add(name.lower())
        names[id] = name
    return names


def masks_to_export(session: Session, accepted_only: bool) -> dict[str, np.ndarray]:
    """Image → mask [H, W]. What was drawn by hand is as it was drawn; an accepted mask is as it was accepted."""
    project, masks = session.project, {}
    for id in project.images:
        if id in project.accepted:
            masks[id] = project.accepted_mask(id)
        elif not accepted_only and id in session.records:
            masks[id] = with_marks(project, id, session.records[id].mask)
    if not masks:
        what = "accepted" if accepted_only else "segmented"
        raise Refused(409, f"No image is {what} yet, so there is nothing to export.")
    return masks


def _write(session: Session, masks: dict[str, np.ndarray], formats: Sequence[Format], target: Path) -> None:
    """Write the files of all formats into a folder."""
    project, names = session.project, export_names(session.project)
    classes = tuple(item.name for item in project.settings.classes)
    colours = {n: _rgb(item.colour) for n, item in enumerate(project.settings.classes, 1)}
    if "masks" in formats:
        for id, mask in masks.items():
            write_mask(mask, target / "masks" / f"{names[id]}.png")
    if "overlays" in formats:
        (target / "overlays").mkdir(parents=True, exist_ok=True)
        for id, mask in masks.items():
            drawn = overlay(project.pixels(id), mask, colours, 0.5, (255, 255, 255))
            Image.fromarray(drawn).save(target / "overlays" / f"{names[id]}.jpg", quality=90)
    labels = dict(enumerate(classes, 1))
    items = tuple(
        AnnotatedImage(
            target / "images" / f"{names[id]}{project.images[id].path.suffix}", *mask.shape, shapes_of(mask, labels)
        )
        for id, mask in masks.items()
    )
    annotations = Annotations(classes, items)
    for format in ("coco", "labelme", "label-studio"):
        if format in formats:
            place = target / ("labelme" if format == "labelme" else f"{format}.json")
            write_annotated(annotations, place, format)
    if "yolo" in formats:
        _write_yolo(masks, names, classes, target / "yolo")
    (target / "classes.txt").write_text("\n".join(classes) + "\n", encoding="utf-8")


def _write_yolo(masks: dict[str, np.ndarray], names: dict[str, str], classes: Sequence[str], target: Path) -> None:
    """One text file for each image: a class from 0 on, then the outline in fractions of width and height."""
    import yaml

    (target / "labels").mkdir(parents=True, exist_ok=True)
    for id, mask in masks.items():
        height, width = mask.shape
        lines = [
            " ".join([str(n - 1), *(f"{x / width:.6f} {y / height:.6f}" for x, y in ring)])
            for n in range(1, len(classes) + 1)
            for ring in polygons_of(mask == n)
            if len(ring) >= 3
        ]
        (target / "labels" / f"{names[id]}.txt").write_text("".join(f"{line}\n" for line in lines))
    content = {"path": ".", "train": "images", "val": "images", "names": dict(enumerate(classes))}
    (target / "data.yaml").write_text(yaml.safe_dump(content, allow_unicode=True, sort_keys=False), encoding="utf-8")


def archive(session: Session, formats: Sequence[Format], accepted_only: bool) -> Path:
    """A zip file of the results; the caller removes it.

    Args:
        session: The project.
        formats: What to write.
        accepted_only: Whether only accepted masks are written.

    Returns:
        The file.
    """
    masks = masks_to_export(session, accepted_only)
    place = session.project.state("exports", "x").parent
    place.mkdir(parents=True, exist_ok=True)
    for old in place.iterdir():  # of a server that was killed
        if time.time() - old.stat().st_mtime > 3600:
            shutil.rmtree(old, ignore_errors=True) if old.is_dir() else old.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(dir=place) as folder:
        _write(session, masks, formats, Path(folder))
        return Path(shutil.make_archive(str(place / Path(folder).name), "zip", folder))


def write_into_folder(session: Session, formats: Sequence[Format], accepted_only: bool) -> Path:
    """Write the results into a new folder inside the project's own; returns that folder."""
    masks = masks_to_export(session, accepted_only)
    target = session.project.folder / RESULTS / time.strftime("%Y-%m-%d-%H%M%S")
    if not target.parent.resolve().is_relative_to(session.project.folder):
        raise Refused(409, f"{RESULTS} leads out of the folder: remove the link.")
    with new_folder(target) as folder:
        _write(session, masks, formats, folder)
    return target


def _rgb(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)
