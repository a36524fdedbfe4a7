"""Annotation formats, in and out. Each module has ``read(path, images)`` and ``write(annotations, path)``."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

from repri.data.io.annotations import AnnotatedImage, Annotations
from repri.data.io.images import MAX_PIXELS, upright_size

__all__ = ["FORMATS", "detect_format", "read_annotated", "write_annotated"]

FORMATS = {
    "folder": "images/ and masks/ of class ids, classes.txt",
    "voc": "JPEGImages/, SegmentationClass/, labelmap.txt; CVAT's segmentation masks",
    "coco": "one JSON of polygons and RLE",
    "labelme": "one JSON beside each image",
    "label-studio": "one JSON of tasks with brushes, polygons, boxes",
}


def read_annotated(path: Path | str, format: str | None = None, images: Path | str | None = None) -> Annotations:
    """Annotations in any of the formats; ``images``: where the pictures are, if not beside them."""
    path = Path(path)
    if not path.exists():
        raise ValueError(f"{path} does not exist")
    kind = format or detect_format(path)
    try:
        found = _module(kind).read(path, None if images is None else Path(images))
    except (
        KeyError,
        TypeError,
        IndexError,
        AttributeError,
        OverflowError,
        RecursionError,
        UnicodeDecodeError,
    ) as error:
        raise ValueError(
            f"{path} cannot be read as {kind} ({type(error).__name__}: {error}): correct it or export it again"
        ) from None
    if not any(item.shapes for item in found):
        raise ValueError(f"{path} holds no annotated image")
    for item in found:
        _check_size(item, path)
    return found


def _check_size(item: AnnotatedImage, path: Path) -> None:
    """An annotation must be of its picture's size, where the picture is there."""
    if item.height * item.width > MAX_PIXELS:
        raise ValueError(
            f"{path}: {item.image.name} has {item.width}×{item.height} pixels, the limit is {MAX_PIXELS:,}"
        )
    if item.image.is_file():
        height, width = image_size(item.image, path)
        if (height, width) != (item.height, item.width):
            raise ValueError(
                f"{path} annotates {item.image} as {item.width}×{item.height} and the image is {width}×{height}: "
                "annotate the image itself"
            )


def write_annotated(annotations: Annotations, path: Path | str, format: str) -> None:
    """Write annotations; a format of folders takes copies of the pictures along."""
    module = _module(format)
    if not annotations.classes:
        raise ValueError(f"nothing is written to {path}: no object is labelled")
    names: dict[str, Path] = {}
    for item in annotations:
        key = item.image.name if format in ("coco", "label-studio") else item.image.stem
        if key in names:
            raise ValueError(f"{names[key]} and {item.image} would both be written as {key!r}: rename one of them")
        names[key] = item.image
    module.write(annotations, Path(path))


def _module(format: str):
    if format not in FORMATS:
        raise ValueError(f"no annotation format named {format!r}; known: {', '.join(FORMATS)}")
    return importlib.import_module(f".{format.replace('-', '_')}", __name__)


def detect_format(path: Path) -> str:
    """The format of a folder or file, by what is in it."""
    if path.is_dir():
        if (path / "SegmentationClass").is_dir():
            return "voc"
        if (path / "images").is_dir() and (path / "masks").is_dir():
            return "folder"
        if any(path.glob("*.json")):
            return "labelme"
    elif path.suffix.lower() == ".json":
        content = read_json(path)
        if isinstance(content, list):
            return "label-studio"
        if "categories" in content:
            return "coco"
        if "shapes" in content:
            return "labelme"
    raise ValueError(f"{path} is in none of the known formats ({', '.join(FORMATS)}): name the one it has")


def read_json(path: Path) -> dict | list:
    """The content of a JSON file, which is a mapping or a list."""
    try:
        content = json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        raise ValueError(f"{path} is not JSON ({error})") from None
    if not isinstance(content, (dict, list)):
        raise ValueError(f"{path} is not an annotation file: it holds a {type(content).__name__}")
    return content


def find_image(name: str, folders: list[Path | None]) -> Path:
    """A picture by the name that an annotation gives it: in one of the folders, with or without its own folders."""
    file = Path(name.replace("\\", "/"))
    known = [folder for folder in folders if folder is not None]
    choices = [folder / part for folder in known for part in (file, Path(file.name), Path("images") / file.name)]
    return next((path for path in choices if path.is_file()), choices[0])


def image_size(path: Path, name: Path) -> tuple[int, int]:
    """Height and width of an upright picture, from its header; ``name``: the annotation that needs it."""
    try:
        return upright_size(path)
    except ValueError:
        raise ValueError(f"{name} needs the size of {path}, which cannot be read: put the image there") from None
