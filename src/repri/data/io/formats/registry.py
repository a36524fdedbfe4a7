"""The known annotation formats, and reading and writing in any of them."""

from __future__ import annotations

from inspect import signature
from pathlib import Path
from typing import Any, Protocol

from repri.data.io.annotations import AnnotatedImage, Annotations
from repri.data.io.classes import class_name
from repri.data.io.files import forget_json
from repri.runtime.errors import RepriError
from repri.runtime.reading import check_regular
from repri.runtime.registry import Registry

from . import coco, folder, label_studio, labelme, voc
from .files import image_size

__all__ = ["FORMATS", "Format", "detect_format", "read_annotated", "register_format", "write_annotated"]


class Format(Protocol):
    """What a format must have: a module or an object with these three functions."""

    def read(self, path: Path, images: Path | None = None) -> Annotations:
        """Read annotations.

        Args:
            path: The file or folder.
            images: Folder of the images, if they are not beside the annotations.
        """
        ...

    def write(self, annotations: Annotations, path: Path) -> None:
        """Write annotations.

        Args:
            annotations: The annotated images.
            path: The file or folder to write. Keywords of the format may follow.
        """
        ...

    def detect(self, path: Path) -> bool:
        """Tell whether a file or folder is in this format, from its content."""
        ...


FORMATS = Registry[Any]("annotation format", "repri.formats")
"""Name → format. They are asked in this order whether a file is theirs."""


def register_format(name: str, format: Any, about: str = "") -> None:
    """Add an annotation format, which can then be read, written, detected and named in commands.

    A package can also declare the format as an entry point of the group ``repri.formats`` instead of calling this.

    Args:
        name: Name of the format.
        format: A module or object with the functions of :class:`Format`: ``read(path, images)``,
            ``write(annotations, path)`` and ``detect(path)``.
        about: One line that describes it.

    Example:
        >>> register_format("nothing", object())
        Traceback (most recent call last):
        repri.runtime.errors.RepriError: the format 'nothing' has no function read(path, images=None)
    """
    for function in ("read(path, images=None)", "write(annotations, path)", "detect(path)"):
        if not callable(getattr(format, function.split("(")[0], None)):
            raise RepriError(f"the format {name!r} has no function {function}")
    if name in FORMATS and _origin(FORMATS[name]) != _origin(format):
        raise RepriError(f"there is already an annotation format named {name!r}: choose another name")
    FORMATS.register(name, format, about)


def _origin(format: Any) -> str:
    """The module that defines a format."""
    return str(getattr(format, "__module__", None) or format.__name__)


register_format("voc", voc, "JPEGImages/, SegmentationClass/ and labelmap.txt, as CVAT's segmentation masks")
register_format("folder", folder, "images/ and masks/ of class ids, with classes.txt")
register_format("coco", coco, "one JSON file of polygons and RLE")
register_format("labelme", labelme, "one JSON file beside each image")
register_format("label-studio", label_studio, "one JSON file of tasks with brushes, polygons and boxes")


def detect_format(path: Path) -> str:
    """Find the format of a file or folder: the first one that recognises the content.

    Args:
        path: The file or folder.

    Returns:
        Name of the format.
    """
    problem = None
    for name in FORMATS:
        try:
            if FORMATS[name].detect(path):
                return name
        except RepriError as error:  # such as: the file is not JSON
            problem = problem or error
    raise problem or RepriError(f"{path} is in none of the known formats ({', '.join(FORMATS)}): name the one it has")


def read_annotated(path: Path | str, format: str | None = None, images: Path | str | None = None) -> Annotations:
    """Read annotations in any of the formats.

    Args:
        path: The file or folder.
        format: Name of the format. None: it is detected.
        images: Folder of the images, if they are not beside the annotations.

    Returns:
        The annotated images, of which at least one has a shape.
    """
    if not str(path).strip():
        raise RepriError("no annotations are named: give a file or a folder")
    path = Path(path)
    if not path.exists():
        raise RepriError(f"{path} does not exist")
    if not path.is_dir():
        check_regular(path)
    kind = "any format"
    try:
        kind = format or detect_format(path)
        annotations = FORMATS[kind].read(path, None if images is None else Path(images))
    except (
        KeyError,
        TypeError,
        IndexError,
        AttributeError,
        OverflowError,
        RecursionError,
        UnicodeError,
    ) as error:
        raise RepriError(
            f"{path} cannot be read as {kind} ({type(error).__name__}: {error}): correct it or export it again"
        ) from None
    finally:
        forget_json()
    if not any(item.shapes for item in annotations):
        raise RepriError(f"{path} holds no annotated image")
    for item in annotations:
        _check_size(item, path)
    return annotations


def _check_size(item: AnnotatedImage, path: Path) -> None:
    """An annotation must have the size of its image, where the image is there."""
    if item.image.is_file():
        height, width = image_size(item.image, path)
        if (height, width) != (item.height, item.width):
            raise RepriError(
                f"{path} annotates {item.image} as {item.width}×{item.height} and the image is {width}×{height}: "
                "annotate the image itself"
            )


def write_annotated(annotations: Annotations, path: Path | str, format: str, **options: Any) -> None:
    """Write annotations; a format that is a folder gets copies of the images.

    Args:
        annotations: The annotated images.
        path: The file or folder to write.
        format: Name of the format.
        **options: Options of the format: ``polygons=True`` writes COCO's outlines as polygons instead of RLE.
    """
    write = FORMATS[format].write
    known = list(signature(write).parameters)[2:]
    for option in options:
        if option not in known:
            raise RepriError(f"the format {format} has no option {option!r}; it has: {', '.join(known) or 'none'}")
    if not annotations.classes:
        raise RepriError(f"nothing is written to {path}: no object is labelled")
    for name in annotations.classes:
        if class_name(name) != name:
            raise RepriError(f"the class {name!r} begins or ends with a blank, which no file keeps: rename it")
    if len(set(annotations.classes)) < len(annotations.classes):
        raise RepriError(f"nothing is written to {path}: two classes have one name")
    write(annotations, Path(path), **options)
