"""``images/`` + ``masks/`` of class ids, with the names in ``classes.txt``."""

from __future__ import annotations

import shutil
from pathlib import Path

from repri.data.datasets.dataset import open_folder
from repri.data.io.annotations import AnnotatedImage, Annotations, shapes_of
from repri.data.io.images import write_mask
from repri.runtime.files import new_folder
from repri.runtime.parallel import parallel


def read(path: Path, images: Path | None = None) -> Annotations:
    dataset = open_folder(path)

    def item(id: str) -> AnnotatedImage:
        mask = dataset.pair(id)[1]
        try:
            shapes = shapes_of(mask, dataset.classes, lambda: dataset.mask(id))
        except ValueError as error:
            raise ValueError(f"{dataset[id].mask}: {error}") from None
        return AnnotatedImage(dataset[id].image, mask.shape[0], mask.shape[1], shapes)

    return Annotations(
        tuple(dataset.classes.values()), tuple(parallel(item, [sample.id for sample in dataset.samples]))
    )


def write(annotations: Annotations, path: Path) -> None:
    ids = annotations.ids
    check_images(annotations)
    with new_folder(path) as folder:
        for item in annotations:
            copy_image(item.image, folder / "images")
            write_mask(item.ids(ids), folder / "masks" / f"{item.image.stem}.png")
        (folder / "classes.txt").write_text("\n".join(annotations.classes) + "\n")


def check_images(annotations: Annotations) -> None:
    """Every picture must be there to be copied."""
    for item in annotations:
        if not item.image.is_file():
            raise ValueError(f"the image {item.image} does not exist: say where the images are")


def copy_image(image: Path, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(image, folder / image.name)
