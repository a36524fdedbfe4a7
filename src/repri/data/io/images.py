"""Reading pictures and masks of every usual kind, with one sentence for what cannot be read.

A picture is an array [H, W, 3] uint8, RGB, turned as its EXIF orientation says. A mask is an array
[H, W] of class ids: 0 background, 255 ignored (uint16 only where ids go beyond 255).
"""

from __future__ import annotations

import re
import struct
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import numpy as np
from PIL import Image, ImageOps, PngImagePlugin

from repri.runtime.files import atomic

__all__ = [
    "IGNORE",
    "IMAGE_SUFFIXES",
    "MASK_SUFFIXES",
    "MAX_PIXELS",
    "MaskKind",
    "check_same_size",
    "colour_map",
    "is_two_level",
    "read_image",
    "read_mask",
    "to_rgb",
    "upright_size",
    "write_mask",
]

IGNORE = 255
ORIENTATION = 0x0112
"""The EXIF tag."""
IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff", ".gif", ".ppm", ".pgm")
MASK_SUFFIXES = (".png", ".npy", ".bmp", ".tif", ".tiff", ".gif", ".webp", ".pgm", ".jpg")
MAX_PIXELS = 178_956_970
"""Larger pictures are refused before they are decoded: a small file can unpack to fill the memory."""

MaskKind = Literal["index", "binary", "auto", "colour"]
"""What the values of a mask file mean: ids; dark or bright; binary if it holds 0 and 255 alone, else
ids; colours of a map."""


def read_image(path: Path | str, max_pixels: int = MAX_PIXELS) -> np.ndarray:
    """The picture in a file as [H, W, 3] uint8, RGB."""
    return to_rgb(_open(Path(path).expanduser(), max_pixels))


def to_rgb(image: Image.Image) -> np.ndarray:
    """Any Pillow image as [H, W, 3] uint8, upright; transparent parts lie on white.

    Grey levels of more than 8 bits are scaled by the smallest usual depth (8, 10, 12, 14, 16 bits)
    that holds the largest of them; floating-point ones by their range unless they lie in [0, 1].
    """
    image = _upright(image)
    if image.mode.startswith("I") or image.mode == "F":
        image = Image.fromarray(_eight_bits(np.asarray(image)))
    if image.mode in ("RGBA", "LA", "PA", "RGBa", "La") or "transparency" in image.info:
        image = image.convert("RGBA")
        white = Image.new("RGBA", image.size, (255, 255, 255, 255))
        image = Image.alpha_composite(white, image)
    return np.array(image if image.mode == "RGB" else image.convert("RGB"))


def _upright(image: Image.Image) -> Image.Image:
    """Turned as its EXIF orientation says; most say nothing and are not copied."""
    return ImageOps.exif_transpose(image) if _orientation(image) != 1 else image


def upright_size(path: Path) -> tuple[int, int]:
    """Height and width of a picture as :func:`read_image` would return it, from its header alone."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            with Image.open(path) as image:
                width, height = image.size
                turned = _orientation(image) in (5, 6, 7, 8)
    except (Image.DecompressionBombError, OSError, SyntaxError, EOFError, ValueError, struct.error) as error:
        raise _unreadable(path, error) from None
    return (width, height) if turned else (height, width)


def _orientation(image: Image.Image) -> int:
    try:
        return image.getexif().get(ORIENTATION, 1)
    except (OSError, SyntaxError, ValueError, KeyError, TypeError, struct.error):  # damaged: it says nothing
        return 1


def _eight_bits(values: np.ndarray) -> np.ndarray:
    if values.dtype.kind == "f":
        values = np.nan_to_num(values, posinf=0, neginf=0)
        low, high = float(values.min()), float(values.max())
        low, high = (0.0, 1.0) if low >= 0 and high <= 1 else (low, max(high, low + 1e-12))
    else:
        low, high = 0, next(top for bits in (8, 10, 12, 14, 16, 32) if values.max() <= (top := 2**bits - 1))
    scaled = (values.astype(np.float64) - low) * (255 / (high - low))
    return scaled.clip(0, 255).round().astype(np.uint8)


def read_mask(
    path: Path | str,
    kind: MaskKind = "index",
    colours: Mapping[tuple[int, int, int], int] | None = None,
    max_pixels: int = MAX_PIXELS,
) -> np.ndarray:
    """The class ids [H, W] in a mask file: PNG of ids, with or without a palette, of colours, of two levels, or .npy.

    A palette's colours are never looked at, only its indices; ``colours`` maps (r, g, b) → id for
    masks painted in RGB.
    """
    path = Path(path).expanduser()
    values = _read_npy(path) if path.suffix == ".npy" else _mask_values(path, colours, max_pixels)
    if values.ndim == 3:
        return _ids_of_colours(path, values, colours)
    if values.dtype == bool:
        return values.astype(np.uint8)
    if kind == "binary" or (kind == "auto" and is_two_level(path, values)):
        return (values > (127 if values.max(initial=0) > 1 else 0)).astype(np.uint8)
    if values.min(initial=0) < 0 or values.max(initial=0) > 65535:
        raise ValueError(f"{path}: ids must lie in 0…65535, found {values.min()}…{values.max()}")
    return values.astype(np.uint8 if values.max(initial=0) <= 255 else np.uint16)


def is_two_level(path: Path, values: np.ndarray) -> bool:
    """Whether a mask holds 0 and 255 alone and may mean an object by 255; a palette always means ids."""
    if values.ndim != 2 or values.max(initial=0) != 255 or not np.isin(values, (0, 255)).all():
        return False
    if path.suffix == ".npy":
        return True
    with Image.open(path) as image:
        return image.mode != "P"


def _mask_values(path: Path, colours: object, max_pixels: int) -> np.ndarray:
    """[H, W] ids or levels, or [H, W, 3] colours."""
    image = _upright(_open(path, max_pixels))
    if image.mode == "F":
        raise ValueError(f"{path} holds floating-point numbers: a mask must hold whole class ids")
    if colours is not None or image.mode not in ("1", "L", "P", "I", "I;16", "I;16B", "I;16L"):
        rgb = np.asarray(image.convert("RGB"))
        grey = colours is None and (rgb == rgb[..., :1]).all()
        return rgb[..., 0] if grey else rgb
    return np.asarray(image)


def _read_npy(path: Path) -> np.ndarray:
    try:
        values = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise _unreadable(path, error) from None
    if not isinstance(values, np.ndarray):
        raise ValueError(f"{path} holds several arrays: save the mask alone with numpy.save")
    values = values[0] if values.ndim == 3 and values.shape[0] == 1 else values
    if values.ndim != 2 or values.dtype.kind not in "bui" or values.size == 0:
        raise ValueError(f"{path}: a mask must be a whole-number array [H, W], found {values.dtype} {values.shape}")
    return values


def _ids_of_colours(path: Path, rgb: np.ndarray, colours: Mapping[tuple[int, int, int], int] | None) -> np.ndarray:
    packed = (rgb.astype(np.int32) << np.array([16, 8, 0])).sum(-1, dtype=np.int32)
    found, where = np.unique(packed, return_inverse=True)
    table = {(r << 16) + (g << 8) + b: id for (r, g, b), id in (colours or {}).items()}
    unknown = [int(colour) for colour in found if int(colour) not in table]
    if unknown:
        first = unknown[0]
        rgb_text = f"({first >> 16}, {first >> 8 & 255}, {first & 255})"
        why = "is not in the colour map" if colours else "needs a colour map"
        raise ValueError(
            f"{path} is painted in colours and {rgb_text} {why}: name its class, or save class ids as a grey PNG"
        )
    ids = np.array([table[int(colour)] for colour in found])
    return ids[where.reshape(packed.shape)].astype(np.uint8 if ids.max() <= 255 else np.uint16)


def _open(path: Path, max_pixels: int) -> Image.Image:
    """The decoded image; anything that goes wrong is a sentence."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # the limit below decides
            image = Image.open(path)
        width, height = image.size
        if width * height <= max_pixels:
            with image:
                image.load()
                return image
        image.close()
    except Image.DecompressionBombError as error:  # Pillow's own limit is the default of ours
        found = re.search(r"\d+ pixels", str(error))
        raise _too_large(path, found[0] if found else "too many pixels", max_pixels) from None
    except FileNotFoundError:
        raise ValueError(f"{path} does not exist") from None
    except (OSError, SyntaxError, EOFError, IndexError, TypeError, ValueError, MemoryError, struct.error) as error:
        raise _unreadable(path, error) from None
    raise _too_large(path, f"{width}×{height} pixels", max_pixels)


def _too_large(path: Path, size: str, max_pixels: int) -> ValueError:
    return ValueError(f"{path} has {size}, the limit is {max_pixels:,}: cut it into tiles or reduce it")


def _unreadable(path: Path, error: Exception) -> ValueError:
    if path.is_dir():
        return ValueError(f"{path} is a folder, not a file")
    try:
        size = path.stat().st_size
    except OSError as problem:
        return ValueError(f"{path} cannot be read: {problem.strerror}")
    if size == 0:
        return ValueError(f"{path} is empty (0 bytes): get it again")
    reason = str(error).split(str(path))[0].rstrip(" '\"") or type(error).__name__
    return ValueError(f"{path} cannot be read as an image ({reason}): get it again or leave it out")


def check_same_size(size: tuple[int, ...], mask: np.ndarray, image_name: object, mask_name: object) -> None:
    """A mask must have its picture's size, height and width."""
    if size == mask.shape:
        return
    (height, width), (mask_height, mask_width) = size, mask.shape
    turned = (
        " (sides exchanged: where EXIF turns a picture, the mask belongs on the upright one)"
        if (height, width) == (mask_width, mask_height)
        else ""
    )
    raise ValueError(
        f"{mask_name} is {mask_width}×{mask_height} and its image {image_name} is {width}×{height}{turned}: "
        "a mask must have the size of its image"
    )


def colour_map(n: int = 256) -> np.ndarray:
    """VOC's colours [n, 3] uint8: the bits of an id spread over r, g and b, the lowest into the highest."""
    ids = np.arange(n)
    colours = np.zeros((n, 3), np.uint8)
    for bit in range(8):
        for channel in range(3):
            colours[:, channel] |= ((ids >> (3 * bit + channel) & 1) << (7 - bit)).astype(np.uint8)
    return colours


def write_mask(mask: np.ndarray, path: Path, notes: Mapping[str, str] | None = None) -> None:
    """Class ids [H, W] as a PNG: with VOC's palette up to 255, plain 16-bit beyond. ``notes``: texts to keep in it."""
    if mask.size and not 0 <= mask.min() <= mask.max() <= 65535:
        raise ValueError(f"{path}: class ids must lie in 0…65535, got {mask.min()}…{mask.max()}")
    mask = mask.astype(np.uint16 if mask.size and mask.max() > 255 else np.uint8)
    texts = PngImagePlugin.PngInfo()
    for key, text in (notes or {}).items():
        texts.add_text(key, text)
    image = Image.fromarray(mask)
    if mask.dtype == np.uint8:
        image.putpalette(_PALETTE)
    with atomic(path) as temporary:
        image.save(temporary, pnginfo=texts)


def _palette() -> list[int]:
    colours = colour_map()
    colours[IGNORE] = (224, 224, 192)
    return colours.flatten().tolist()


_PALETTE = _palette()
