"""VOC's folders, which CVAT's *segmentation mask* export shares: ``labelmap.txt`` says what the colours mean.

Without a label map the masks are VOC's own: PNGs with a palette whose indices are the ids of the 20 classes.
"""

from __future__ import annotations

import os
from pathlib import Path

from repri.data.io.annotations import BACKGROUND, IGNORE_LABEL, IGNORED, AnnotatedImage, Annotations, shapes_of
from repri.data.io.classes import PASCAL, class_name, number_classes
from repri.data.io.files import read_lines
from repri.data.io.images import list_images
from repri.data.io.masks import IGNORE, IGNORE_COLOUR, read_mask, write_mask
from repri.runtime.draw import colour_map
from repri.runtime.errors import RepriError
from repri.runtime.files import new_folder
from repri.runtime.parallel import parallel

from .files import check_images, check_names, copy_image, find_image

__all__ = ["detect", "read", "read_label_map", "write"]


def detect(path: Path) -> bool:
    """Tell whether a folder has ``SegmentationClass/``."""
    return (path / "SegmentationClass").is_dir()


def read(path: Path, images: Path | None = None) -> Annotations:
    """Read the folder ``path``; the images are in ``images`` or in ``JPEGImages/``."""
    label_map = path / "labelmap.txt"
    names, colours = read_label_map(label_map) if os.path.lexists(label_map) else (PASCAL, None)
    masks = [mask for mask in list_images(path / "SegmentationClass") if mask.suffix.lower() == ".png"]
    folder = images or path / "JPEGImages"
    by_name = {file.stem: file for file in list_images(folder)} if folder.is_dir() else {}

    numbered = number_classes(names)

    def item(mask_path: Path) -> AnnotatedImage:
        mask = read_mask(mask_path, colours=colours)
        image = by_name.get(mask_path.stem) or find_image(f"{mask_path.stem}.jpg", [folder])
        try:
            shapes = shapes_of(mask, numbered, lambda: read_mask(mask_path, colours=colours))
        except RepriError as error:
            raise RepriError(f"{mask_path}: {error}") from None
        return AnnotatedImage(image, mask.shape[0], mask.shape[1], shapes)

    return Annotations(names, tuple(parallel(item, masks)))


def read_label_map(path: Path) -> tuple[tuple[str, ...], dict[tuple[int, int, int], int]]:
    """Read a label map, whose lines are ``name:r,g,b:parts:actions``.

    Args:
        path: The file.

    Returns:
        The names of the classes in the order of their ids, and (r, g, b) → id.
    """
    names: dict[str, tuple[int, int, int]] = {}
    colours = {IGNORE_COLOUR: IGNORE}
    for number, line in enumerate(read_lines(path), 1):
        if not line.strip() or line.startswith("#"):
            continue
        try:
            name, rgb = line.split(":")[:2]
            r, g, b = (int(value) for value in rgb.split(","))
            name = class_name(name)
        except ValueError as error:
            why = f" ({error})" if isinstance(error, RepriError) else ""
            raise RepriError(f"{path}, line {number}: expected `name:r,g,b::`, found {line[:60]!r}{why}") from None
        if not all(0 <= value <= 255 for value in (r, g, b)):
            raise RepriError(f"{path}, line {number}: the colour {r},{g},{b} must have values of 0 to 255")
        if name in BACKGROUND:
            colours[r, g, b] = 0
        elif name in IGNORED:
            colours[r, g, b] = IGNORE
        else:
            if name in names or (r, g, b) in colours:
                raise RepriError(f"{path}, line {number}: the class {name!r} or its colour occurs twice")
            names[name] = r, g, b
            colours[r, g, b] = 0  # until its id is known
    if not names:
        raise RepriError(f"{path} names no class: write one on each line, such as `cat:128,0,0::`")
    colours |= {names[name]: id for id, name in number_classes(tuple(names)).items()}
    return tuple(names), colours


def write(annotations: Annotations, path: Path) -> None:
    """Write a new folder ``path`` with copies of the images; the masks are exact."""
    check_names(annotations, lambda image: image.stem)
    ids = annotations.ids
    if max(ids.values()) > 254:
        raise RepriError(f"{len(ids)} classes do not fit the 254 of VOC's palette: write coco instead")
    for name in ids:
        if ":" in name or name.startswith("#"):
            raise RepriError(
                f"{path / 'labelmap.txt'} cannot hold the class {name!r}: rename it, or write coco instead"
            )
    check_images(annotations)
    table = colour_map()
    rows = [("background", table[0]), *((name, table[id]) for name, id in ids.items()), (IGNORE_LABEL, IGNORE_COLOUR)]
    lines = ["# label:color_rgb:parts:actions", *(f"{name}:{r},{g},{b}::" for name, (r, g, b) in rows)]
    with new_folder(path) as folder:
        for item in annotations:
            copy_image(item.image, folder / "JPEGImages")
            write_mask(item.ids(ids), folder / "SegmentationClass" / f"{item.image.stem}.png")
        (folder / "labelmap.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
        listed = folder / "ImageSets" / "Segmentation" / "default.txt"
        listed.parent.mkdir(parents=True)
        listed.write_text("\n".join(item.image.stem for item in annotations) + "\n", encoding="utf-8")
