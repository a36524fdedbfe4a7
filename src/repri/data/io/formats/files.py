"""What several formats need: finding images by name, copying them, and checks before anything is written."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from repri.data.io.annotations import Annotations
from repri.data.io.files import read_json
from repri.data.io.images import upright_size
from repri.runtime.errors import RepriError
from repri.runtime.reading import check_regular

__all__ = ["check_images", "check_names", "copy_image", "find_image", "image_size", "json_content"]


def json_content(path: Path) -> dict | list | None:
    """Return the content of a JSON file, or None if the path is something else."""
    return read_json(path) if path.suffix.lower() == ".json" and path.is_file() else None


def find_image(name: str, folders: Sequence[Path | None]) -> Path:
    """Find an image by the name that an annotation gives it.

    Args:
        name: The name, with or without folders of its own.
        folders: Folders to look in, the most likely first; None is passed over.

    Returns:
        The first file that is there, or else the most likely place.
    """
    file = Path(name.replace("\\", "/"))
    known = [folder for folder in folders if folder is not None]
    choices = [folder / part for folder in known for part in (file, Path(file.name), Path("images") / file.name)]
    return next((path for path in choices if path.is_file()), choices[0])


def image_size(path: Path, annotation: Path) -> tuple[int, int]:
    """Read height and width of an upright image from its header.

    Args:
        path: The image.
        annotation: The annotation that needs the size, for the message.

    Returns:
        Height and width.
    """
    try:
        return upright_size(path)
    except RepriError as error:
        raise RepriError(f"{annotation} needs the size of its image, and {error}") from None


def check_names(annotations: Annotations, name: Callable[[Path], str]) -> None:
    """Raise an error if two images would be written under one name.

    Args:
        annotations: The annotated images.
        name: Gives the name under which an image is written.
    """
    known: dict[str, Path] = {}
    for item in annotations:
        key = name(item.image)
        if key in known:
            raise RepriError(f"{known[key]} and {item.image} would both be written as {key!r}: rename one of them")
        known[key] = item.image


def check_images(annotations: Annotations) -> None:
    """Raise an error unless every image is there to be copied."""
    for item in annotations:
        if not item.image.exists():
            raise RepriError(f"the image {item.image} does not exist: say where the images are (--images)")
        check_regular(item.image)


def copy_image(image: Path, folder: Path) -> None:
    """Copy an image into a folder, which is made if it is not there."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(image, folder / image.name)
