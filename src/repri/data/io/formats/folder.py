"""``images/`` and ``masks/`` of class ids, with the names of the classes in ``classes.txt``."""

from __future__ import annotations

from pathlib import Path

from repri.data.io.annotations import AnnotatedImage, Annotations, shapes_of
from repri.data.io.images import read_image
from repri.data.io.masks import check_same_size, read_mask, write_mask
from repri.data.io.pairs import Pair, read_image_folder
from repri.runtime.errors import RepriError
from repri.runtime.files import new_folder
from repri.runtime.parallel import parallel

from .files import check_images, check_names, copy_image

__all__ = ["detect", "read", "write"]


def detect(path: Path) -> bool:
    """Tell whether a folder has ``images/`` and ``masks/``."""
    return (path / "images").is_dir() and (path / "masks").is_dir()


def read(path: Path, images: Path | None = None) -> Annotations:
    """Read the folder ``path``; its images are in it, so ``images`` is not used."""
    folder = read_image_folder(path)

    def item(pair: Pair) -> AnnotatedImage:
        if not pair.mask.is_file():
            raise RepriError(f"{pair.image} has no mask: {pair.mask} does not exist; add it or leave the image out")
        mask = read_mask(pair.mask, folder.masks)
        check_same_size(read_image(pair.image).shape[:2], mask, pair.image, pair.mask)
        try:
            shapes = shapes_of(mask, folder.classes, lambda: read_mask(pair.mask, folder.masks))
        except RepriError as error:
            raise RepriError(f"{pair.mask}: {error}") from None
        return AnnotatedImage(pair.image, mask.shape[0], mask.shape[1], shapes)

    return Annotations(tuple(folder.classes.values()), tuple(parallel(item, folder.pairs)))


def write(annotations: Annotations, path: Path) -> None:
    """Write a new folder ``path`` with copies of the images; the masks are exact."""
    check_names(annotations, lambda image: image.stem)
    check_images(annotations)
    ids = annotations.ids
    with new_folder(path) as folder:
        for item in annotations:
            copy_image(item.image, folder / "images")
            write_mask(item.ids(ids), folder / "masks" / f"{item.image.stem}.png")
        (folder / "classes.txt").write_text("\n".join(annotations.classes) + "\n", encoding="utf-8")
