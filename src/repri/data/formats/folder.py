"""``images/`` + ``masks/`` of class ids, with the names in ``classes.txt``."""

from __future__ import annotations

import shutil
from pathlib import Path

from repri.data.annotations import AnnotatedImage, Annotations, shapes_of
from repri.data.dataset import open_folder
from repri.data.images import write_mask
from repri.data.parallel import parallel
from repri.files import atomic


def read(path: Path, images: Path | None = None) -> Annotations:
    dataset = open_folder(path)

    def item(id: str) -> AnnotatedImage:
        mask = dataset.pair(id)[1]
        return AnnotatedImage(dataset[id].image, *mask.shape, shapes_of(mask, dataset.classes))

    return Annotations(
        tuple(dataset.classes.values()), tuple(parallel(item, [sample.id for sample in dataset.samples]))
    )


def write(annotations: Annotations, path: Path) -> None:
    ids = annotations.ids
    for item in annotations:
        copy_image(item.image, path / "images")
        write_mask(item.ids(ids), path / "masks" / f"{item.image.stem}.png")
    with atomic(path / "classes.txt") as temporary:
        temporary.write_text("\n".join(annotations.classes) + "\n")


def copy_image(image: Path, folder: Path) -> None:
    """A copy of a picture in a folder."""
    target = folder / image.name
    if not image.is_file():
        raise ValueError(f"the image {image} does not exist: say where the images are")
    if target.exists() and target.samefile(image):
        return
    with atomic(target) as temporary:
        shutil.copyfile(image, temporary)
