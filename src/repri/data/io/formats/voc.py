"""VOC's folders, which CVAT's *segmentation mask* export shares: the colours' meaning in ``labelmap.txt``.

Without a label map the masks are VOC's own: palette PNGs whose indices are the 20 classes' ids.
"""

from __future__ import annotations

from pathlib import Path

from repri.data.datasets.dataset import images_in
from repri.data.datasets.folds import PASCAL, numbered
from repri.data.io.annotations import BACKGROUND, IGNORE_LABEL, IGNORED, AnnotatedImage, Annotations, shapes_of
from repri.data.io.images import IGNORE, colour_map, read_mask, write_mask
from repri.runtime.files import new_folder
from repri.runtime.parallel import parallel

from . import find_image
from .folder import check_images, copy_image

IGNORE_COLOUR = (224, 224, 192)


def read(path: Path, images: Path | None = None) -> Annotations:
    label_map = path / "labelmap.txt"
    names, colours = read_label_map(label_map) if label_map.is_file() else (tuple(PASCAL), None)
    masks = [mask for mask in images_in(path / "SegmentationClass") if mask.suffix.lower() == ".png"]
    folder = images or path / "JPEGImages"
    pictures = {file.stem: file for file in images_in(folder)} if folder.is_dir() else {}

    def item(mask_path: Path) -> AnnotatedImage:
        mask = read_mask(mask_path, colours=colours)
        image = pictures.get(mask_path.stem) or find_image(f"{mask_path.stem}.jpg", [folder])
        try:
            shapes = shapes_of(mask, numbered(names), lambda: read_mask(mask_path, colours=colours))
        except ValueError as error:
            raise ValueError(f"{mask_path}: {error}") from None
        return AnnotatedImage(image, mask.shape[0], mask.shape[1], shapes)

    return Annotations(names, tuple(parallel(item, masks)))


def read_label_map(path: Path) -> tuple[tuple[str, ...], dict[tuple[int, int, int], int]]:
    """Names in order, and colour → id, of lines ``name:r,g,b:parts:actions``."""
    names: list[str] = []
    colours = {IGNORE_COLOUR: IGNORE}
    for number, line in enumerate(path.read_text(encoding="utf-8-sig").splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        try:
            name, rgb = line.split(":")[:2]
            r, g, b = (int(value) for value in rgb.split(","))
        except ValueError:
            raise ValueError(f"{path}, line {number}: expected `name:r,g,b::`, found {line[:60]!r}") from None
        if name in BACKGROUND:
            colours[r, g, b] = 0
        elif name in IGNORED:
            colours[r, g, b] = IGNORE
        else:
            names.append(name)
            colours[r, g, b] = next(id for id, known in numbered(names).items() if known == name)
    if not names:
        raise ValueError(f"{path} names no class")
    return tuple(names), colours


def write(annotations: Annotations, path: Path) -> None:
    ids = annotations.ids
    if max(ids.values()) > 254:
        raise ValueError(f"{len(ids)} classes do not fit the 254 of VOC's palette: write coco instead")
    check_images(annotations)
    table = colour_map()
    rows = [("background", table[0]), *((name, table[id]) for name, id in ids.items()), (IGNORE_LABEL, IGNORE_COLOUR)]
    lines = ["# label:color_rgb:parts:actions", *(f"{name}:{r},{g},{b}::" for name, (r, g, b) in rows)]
    with new_folder(path) as folder:
        for item in annotations:
            copy_image(item.image, folder / "JPEGImages")
            write_mask(item.ids(ids), folder / "SegmentationClass" / f"{item.image.stem}.png")
        (folder / "labelmap.txt").write_text("\n".join(lines) + "\n")
        listed = folder / "ImageSets" / "Segmentation" / "default.txt"
        listed.parent.mkdir(parents=True)
        listed.write_text("\n".join(item.image.stem for item in annotations) + "\n")
