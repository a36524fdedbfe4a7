"""Images of every usual kind, and one sentence about each file that cannot be read.

An image is an array [H, W, 3] uint8 in RGB, turned as its EXIF orientation says.
"""

from __future__ import annotations

import math
import re
import struct
import warnings
import zlib
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import BinaryIO

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from repri.runtime.errors import RepriError
from repri.runtime.limits import LIMITS, limit
from repri.runtime.memory import return_memory
from repri.runtime.reading import check_regular, short

__all__ = [
    "IMAGE_SUFFIXES",
    "MAX_PIXELS",
    "check_pixels",
    "header_of",
    "list_images",
    "open_content",
    "open_image",
    "read_image",
    "to_rgb",
    "unreadable",
    "upright",
    "upright_size",
]

IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff", ".gif", ".ppm", ".pgm")
DAMAGED = (
    OSError,
    SyntaxError,
    EOFError,
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
    OverflowError,
    ZeroDivisionError,
    MemoryError,
    RuntimeError,
    struct.error,
    zlib.error,
)
"""What Pillow's decoders raise for damaged files."""
KINDS = ("JPEG", "MPO", "PNG", "WEBP", "BMP", "DIB", "TIFF", "GIF", "PPM", "JPEG2000", "AVIF")
"""Pillow's decoders that are used. Others are rare, and one of them starts another program (EPS)."""
LARGE, ROWS = 1 << 24, 1024
"""Pixels above which an image is converted in strips, and the rows of a strip."""
ORIENTATION = 0x0112
"""The EXIF tag."""
MAX_PIXELS = int(LIMITS["REPRI_MAX_PIXELS"].default)
"""Larger images are refused before they are decoded, unless REPRI_MAX_PIXELS allows them: a small file can unpack to
fill the memory."""


def read_image(path: Path | str, max_pixels: int | None = None) -> np.ndarray:
    """Read an image file.

    Args:
        path: The file, of one of the :data:`KINDS`, which its content tells.
        max_pixels: Images with more pixels are refused before they are decoded; default: REPRI_MAX_PIXELS, or
            :data:`MAX_PIXELS`.

    Returns:
        [H, W, 3] uint8, RGB, upright.
    """
    image = open_image(Path(path).expanduser(), max_pixels)
    pixels, turn = _as_stored(image), _orientation(image)
    if image.width * image.height > LARGE:
        del image
        return_memory()
    return _turned(pixels, turn)


def list_images(folder: Path) -> list[Path]:
    """List the images of a folder, sorted by name; hidden files do not count.

    Args:
        folder: A folder; the folders in it are not searched.

    Returns:
        The files whose names end as those of images do.
    """
    if not folder.is_dir():
        raise RepriError(f"there is no folder {folder}")
    return sorted(p for p in folder.iterdir() if p.suffix.lower() in IMAGE_SUFFIXES and not p.name.startswith("."))


def to_rgb(image: Image.Image) -> np.ndarray:
    """Convert a Pillow image of any mode to RGB; transparent parts lie on white.

    Grey levels of more than 8 bits are scaled by the smallest usual depth (8, 10, 12, 14, 16 bits) that holds the
    largest of them. Floating-point levels are scaled by their range, unless they lie in [0, 1].

    Args:
        image: The image, which is turned as its EXIF orientation says.

    Returns:
        [H, W, 3] uint8.

    Example:
        >>> to_rgb(Image.new("L", (4, 2), 7)).shape
        (2, 4, 3)
    """
    return _turned(_as_stored(image), _orientation(image))


def _turned(pixels: np.ndarray, orientation: int) -> np.ndarray:
    """[H, W, 3] turned as an EXIF orientation says."""
    if orientation in (5, 6, 7, 8):
        pixels = pixels.swapaxes(0, 1)
    if orientation in (3, 4, 7, 8):
        pixels = pixels[::-1]
    if orientation in (2, 3, 6, 7):
        pixels = pixels[:, ::-1]
    return np.ascontiguousarray(pixels)


def _as_stored(image: Image.Image) -> np.ndarray:
    """[H, W, 3] uint8 as the image is stored, not turned."""
    levels = _levels(image) if image.mode.startswith("I") or image.mode == "F" else None
    if image.width * image.height <= LARGE:
        return _rgb(image, levels)
    pixels = np.empty((image.height, image.width, 3), np.uint8)
    for top, strip in _strips(image):
        pixels[top : top + strip.height] = _rgb(strip, levels)
    return pixels


def _strips(image: Image.Image) -> Iterator[tuple[int, Image.Image]]:
    """The first row of each strip, and the strip: Pillow takes four bytes for each pixel, and so does each step."""
    rows = max(1, min(ROWS, LARGE // image.width))
    for top in range(0, image.height, rows):
        yield top, image.crop((0, top, image.width, min(top + rows, image.height)))


def _rgb(image: Image.Image, levels: tuple[float, float] | None) -> np.ndarray:
    """[H, W, 3] uint8 of an upright image; ``levels``: the grey levels that become black and white."""
    if levels is not None:
        image = Image.fromarray(_eight_bits(np.asarray(image), *levels))
    if image.mode in ("RGBA", "LA", "PA", "RGBa", "La") or "transparency" in image.info:
        image = image.convert("RGBA")
        white = Image.new("RGBA", image.size, (255, 255, 255, 255))
        image = Image.alpha_composite(white, image)
    return np.array(image if image.mode == "RGB" else image.convert("RGB"))


def upright(image: Image.Image) -> Image.Image:
    """Turn an image as its EXIF orientation says; an image that is upright already is not copied."""
    return ImageOps.exif_transpose(image) if _orientation(image) != 1 else image


@contextmanager
def header_of(path: Path) -> Generator[Image.Image]:
    """Open an image file without decoding it, and without Pillow's warning about large ones: ours is the limit."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)
        image = Image.open(path, formats=_decoders())
    with image:
        yield image


@cache
def _decoders() -> tuple[str, ...]:
    """Those of :data:`KINDS` that this Pillow has."""
    Image.init()
    return tuple(kind for kind in KINDS if kind in Image.OPEN)


def upright_size(path: Path) -> tuple[int, int]:
    """Read the size that :func:`read_image` would give an image, from the header of its file alone.

    Args:
        path: The image file.

    Returns:
        Height and width.
    """
    check_regular(path)
    _most_pixels()
    try:
        with header_of(path) as image:
            width, height = image.size
            turned = _orientation(image) in (5, 6, 7, 8)
    except (Image.DecompressionBombError, *DAMAGED) as error:
        raise unreadable(path, error) from None
    return (width, height) if turned else (height, width)


def _orientation(image: Image.Image) -> int:
    """The EXIF orientation, 1 to 8; damaged EXIF data counts as none."""
    try:
        return image.getexif().get(ORIENTATION, 1)
    except (OSError, SyntaxError, ValueError, KeyError, TypeError, struct.error):
        return 1


def _levels(image: Image.Image) -> tuple[float, float]:
    """The deep or floating-point grey levels that become black and white."""
    low, high = math.inf, -math.inf
    for _, strip in _strips(image):
        values = np.asarray(strip)
        values = np.nan_to_num(values, posinf=0, neginf=0) if image.mode == "F" else values
        low, high = min(low, float(values.min())), max(high, float(values.max()))
    if image.mode == "F":
        return (0.0, 1.0) if low >= 0 and high <= 1 else (low, max(high, low + 1e-12))
    return 0.0, next(2.0**bits - 1 for bits in (8, 10, 12, 14, 16, 32) if high <= 2**bits - 1)


def _eight_bits(values: np.ndarray, low: float, high: float) -> np.ndarray:
    """Scale grey levels to 0…255."""
    if values.dtype.kind == "f":
        values = np.nan_to_num(values, posinf=0, neginf=0)
    scaled = (values.astype(np.float64) - low) * (255 / (high - low))
    return scaled.clip(0, 255).round().astype(np.uint8)


def open_image(path: Path, max_pixels: int | None = None) -> Image.Image:
    """Decode an image file.

    Args:
        path: The file.
        max_pixels: Images with more pixels are refused before they are decoded.

    Returns:
        The image as it is stored, not turned.
    """
    if not path.exists():
        raise RepriError(f"{path} does not exist")
    check_regular(path)
    return open_content(path, path, max_pixels)


def open_content(source: Path | BinaryIO, name: object, max_pixels: int | None = None) -> Image.Image:
    """Decode an image from a file, or from bytes in memory.

    Args:
        source: The file, or an object with its content.
        name: What messages call it.
        max_pixels: Images with more pixels are refused before they are decoded.

    Returns:
        The image as it is stored, not turned.
    """
    most = _most_pixels() if max_pixels is None else max_pixels
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # the limit below decides
            image = Image.open(source, formats=_decoders())
        width, height = image.size
        if width * height <= most:
            with image:
                image.load()
                return image
        image.close()
    except Image.DecompressionBombError as error:  # Pillow's own limit is the default of ours
        pixels = re.search(r"\d+ pixels", str(error))
        raise _too_large(name, pixels[0] if pixels else "too many pixels", most) from None
    except DAMAGED as error:
        if isinstance(source, Path):
            raise unreadable(source, error) from None
        raise RepriError(f"{name} cannot be read as an image ({_why(error)})") from None
    raise _too_large(name, f"{width}×{height} pixels", most)


def _most_pixels() -> int:
    """The limit; Pillow has one of its own, which must not be lower."""
    most = int(limit("REPRI_MAX_PIXELS"))
    if Image.MAX_IMAGE_PIXELS is not None and most > 2 * Image.MAX_IMAGE_PIXELS:
        Image.MAX_IMAGE_PIXELS = most // 2 + 1
    return most


def check_pixels(height: object, width: object, what: str) -> tuple[int, int]:
    """Check the size that an annotation gives its image, before anything of this size is made.

    Args:
        height: Height.
        width: Width.
        what: The image, with which messages begin.

    Returns:
        Height and width.

    Example:
        >>> check_pixels(4, -1, "a.jpg")
        Traceback (most recent call last):
        repri.runtime.errors.RepriError: a.jpg has the size -1×4: it must be whole numbers above 0
    """
    if not isinstance(height, int) or not isinstance(width, int) or min(height, width) < 1:
        raise RepriError(f"{what} has the size {short(width)}×{short(height)}: it must be whole numbers above 0")
    if isinstance(height, bool) or isinstance(width, bool):
        raise RepriError(f"{what} has the size {width}×{height}: it must be whole numbers above 0")
    if height * width > _most_pixels():
        raise _too_large(what, f"{short(width)}×{short(height)} pixels", _most_pixels())
    return height, width


def _too_large(path: object, size: str, max_pixels: int) -> RepriError:
    """The error about an image with too many pixels."""
    return RepriError(
        f"{path} has {size}, the limit is {max_pixels:,}: cut it into tiles or reduce it, or set REPRI_MAX_PIXELS"
    )


def unreadable(path: Path, error: Exception) -> RepriError:
    """Explain why a file cannot be read as an image.

    Args:
        path: The file.
        error: What the library that reads it raised.

    Returns:
        The error to raise, which names the file and the reason.
    """
    if path.is_dir():
        return RepriError(f"{path} is a folder, not a file")
    try:
        size = path.stat().st_size
    except OSError as problem:
        return RepriError(f"{path} cannot be read: {problem.strerror}")
    if size == 0:
        return RepriError(f"{path} is empty (0 bytes): get it again")
    return RepriError(f"{path} cannot be read as an image ({_why(error, path)}): get it again or leave it out")


def _why(error: Exception, path: Path | None = None) -> str:
    """What a library says about a file, without the name that the file has there."""
    if isinstance(error, UnidentifiedImageError):
        return "its content is that of no known kind of image"
    return str(error).split(str(path) if path else "<_io")[0].rstrip(" '\"") or type(error).__name__
