"""Masks of every usual kind.

A mask is an array [H, W] of class ids: 0 is background and 255 is ignored. It is uint8, or uint16 where ids go
beyond 255.
"""

from __future__ import annotations

import io
import tokenize
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import numpy as np
from PIL import Image, PngImagePlugin

from repri.runtime.draw import colour_map
from repri.runtime.errors import RepriError
from repri.runtime.files import atomic
from repri.runtime.reading import check_regular

from .images import check_pixels, header_of, open_image, unreadable, upright

__all__ = [
    "IGNORE",
    "IGNORE_COLOUR",
    "MASK_SUFFIXES",
    "MaskKind",
    "check_same_size",
    "ids_in",
    "is_mask",
    "is_two_level",
    "mask_type",
    "palette_png",
    "read_mask",
    "write_mask",
]

IGNORE = 255
"""Id of the pixels that count neither as a class nor as background."""
IGNORE_COLOUR = (224, 224, 192)
"""Colour of ignored pixels in VOC's palette."""
MASK_SUFFIXES = (".png", ".npy", ".bmp", ".tif", ".tiff", ".gif", ".webp", ".pgm", ".jpg")

MaskKind = Literal["index", "binary", "auto", "colour"]
"""What the values of a mask file mean.

``index``: class ids. ``binary``: dark is background, bright is the object. ``auto``: binary if the file holds only 0
and 255, otherwise ids. ``colour``: colours that a map assigns to classes.
"""


def read_mask(
    path: Path | str,
    kind: MaskKind = "index",
    colours: Mapping[tuple[int, int, int], int] | None = None,
    max_pixels: int | None = None,
) -> np.ndarray:
    """Read a mask file: a PNG of ids with or without a palette, of colours or of two levels, or a .npy array.

    Only the indices of a palette count, its colours do not.

    Args:
        path: The file.
        kind: What its values mean.
        colours: (r, g, b) → id, for masks that are painted in RGB.
        max_pixels: Masks with more pixels are refused before they are decoded; default: as for images.

    Returns:
        Class ids [H, W], uint8 or uint16.
    """
    path = Path(path).expanduser()
    values = _read_npy(path) if path.suffix == ".npy" else _values(path, colours, max_pixels)
    if values.ndim == 3:
        return _ids_of_colours(path, values, colours)
    if values.dtype == bool:
        return values.astype(np.uint8)
    if kind == "binary" or (kind == "auto" and is_two_level(path, values)):
        return (values > (127 if values.max(initial=0) > 1 else 0)).astype(np.uint8)
    if values.min(initial=0) < 0 or values.max(initial=0) > 65535:
        raise RepriError(f"{path}: class ids must lie in 0…65535, found {values.min()}…{values.max()}")
    return values.astype(mask_type(values.max(initial=0)))


def write_mask(mask: np.ndarray, path: Path, notes: Mapping[str, str] | None = None) -> None:
    """Write class ids as a PNG: with VOC's palette up to 255, as plain 16-bit values beyond.

    Args:
        mask: Class ids [H, W].
        path: The file to write.
        notes: Texts to keep in the PNG, by their keys.
    """
    if mask.size and not 0 <= mask.min() <= mask.max() <= 65535:
        raise RepriError(f"{path}: class ids must lie in 0…65535, got {mask.min()}…{mask.max()}")
    mask = mask.astype(mask_type(mask.max(initial=0)), copy=False)
    texts = PngImagePlugin.PngInfo()
    for key, text in (notes or {}).items():
        texts.add_text(key, text)
    image = Image.fromarray(mask)
    if mask.dtype == np.uint8:
        image.putpalette(_PALETTE)
    with atomic(path) as temporary:
        image.save(temporary, pnginfo=texts)


def palette_png(mask: np.ndarray) -> bytes:
    """Return class ids [H, W] uint8 as the bytes of a PNG with VOC's palette, as :func:`write_mask` writes them."""
    buffer = io.BytesIO()
    image = Image.fromarray(mask)
    image.putpalette(_PALETTE)
    image.save(buffer, "PNG")
    return buffer.getvalue()


def mask_type(largest: int) -> type[np.uint8] | type[np.uint16]:
    """Return the array type of a mask whose largest id is ``largest``.

    Example:
        >>> mask_type(20).__name__, mask_type(300).__name__
        ('uint8', 'uint16')
    """
    return np.uint8 if largest <= 255 else np.uint16


def ids_in(mask: np.ndarray) -> list[int]:
    """List the ids that occur in a mask, sorted; a large mask is not sorted for it.

    Args:
        mask: Class ids [H, W].

    Returns:
        The ids.

    Example:
        >>> ids_in(np.array([[0, 7], [7, 255]], np.uint8))
        [0, 7, 255]
    """
    if mask.dtype not in (np.uint8, np.uint16):
        return np.unique(mask).tolist()
    seen = np.zeros(np.iinfo(mask.dtype).max + 1, bool)
    for row in mask:
        seen[row] = True
    return np.flatnonzero(seen).tolist()


def is_mask(path: Path) -> bool:
    """Tell whether a file is named as a mask is; hidden files are not."""
    return path.suffix.lower() in MASK_SUFFIXES and not path.name.startswith(".")


def is_two_level(path: Path, values: np.ndarray) -> bool:
    """Tell whether a mask holds only 0 and 255, so that 255 may mean an object.

    Args:
        path: The file of the mask: a PNG with a palette always holds ids.
        values: The values [H, W] in it.

    Returns:
        Whether 255 may mean an object.
    """
    if values.ndim != 2 or values.max(initial=0) != 255 or not set(ids_in(values)) <= {0, 255}:
        return False
    if path.suffix == ".npy":
        return True
    with header_of(path) as image:
        return image.mode != "P"


def check_same_size(size: tuple[int, ...], mask: np.ndarray, image_name: object, mask_name: object) -> None:
    """Raise an error unless a mask has the size of its image.

    Args:
        size: Height and width of the image.
        mask: [H, W].
        image_name: The image's file, for the message.
        mask_name: The mask's file, for the message.
    """
    if size == mask.shape:
        return
    (height, width), (mask_height, mask_width) = size, mask.shape
    turned = (
        " (sides exchanged: where EXIF turns an image, the mask belongs on the upright one)"
        if (height, width) == (mask_width, mask_height)
        else ""
    )
    raise RepriError(
        f"{mask_name} is {mask_width}×{mask_height} and its image {image_name} is {width}×{height}{turned}: "
        "a mask must have the size of its image"
    )


def _values(path: Path, colours: object, max_pixels: int | None) -> np.ndarray:
    """Read ids or levels [H, W], or colours [H, W, 3]."""
    image = upright(open_image(path, max_pixels))
    if image.mode == "F":
        raise RepriError(f"{path} holds floating-point numbers: a mask must hold whole class ids")
    if colours is not None or image.mode not in ("1", "L", "P", "I", "I;16", "I;16B", "I;16L"):
        rgb = np.asarray(image.convert("RGB"))
        grey = colours is None and (rgb == rgb[..., :1]).all()
        return rgb[..., 0] if grey else rgb
    return np.asarray(image)


def _read_npy(path: Path) -> np.ndarray:
    """Read the whole numbers [H, W] of a .npy file."""
    check_regular(path)
    try:
        with np.errstate(all="ignore"):  # sizes in its header that no number can hold
            values = np.load(path, mmap_mode="r", allow_pickle=False)
    except OSError as error:
        raise unreadable(path, error) from None
    except (ValueError, EOFError, TypeError, LookupError, SyntaxError, OverflowError, MemoryError, RecursionError):
        raise _no_array(path) from None
    except (tokenize.TokenError, zipfile.BadZipFile):
        raise _no_array(path) from None
    if not isinstance(values, np.ndarray):
        values.close()
        raise RepriError(f"{path} holds several arrays: save the mask alone with numpy.save")
    values = values[0] if values.ndim == 3 and values.shape[0] == 1 else values
    if values.ndim != 2 or values.dtype.kind not in "bui" or values.size == 0:
        raise RepriError(f"{path}: a mask must be a whole-number array [H, W], found {values.dtype} {values.shape}")
    check_pixels(*values.shape, str(path))
    return np.array(values)


def _no_array(path: Path) -> RepriError:
    if path.stat().st_size == 0:
        return RepriError(f"{path} is empty (0 bytes): get it again")
    return RepriError(f"{path} is damaged or holds no array of numbers: save the mask again with numpy.save")


def _ids_of_colours(path: Path, rgb: np.ndarray, colours: Mapping[tuple[int, int, int], int] | None) -> np.ndarray:
    """Translate colours [H, W, 3] to class ids [H, W]."""
    packed = (rgb.astype(np.int32) << np.array([16, 8, 0])).sum(-1, dtype=np.int32)
    present, where = np.unique(packed, return_inverse=True)
    table = {(r << 16) + (g << 8) + b: id for (r, g, b), id in (colours or {}).items()}
    unknown = [int(colour) for colour in present if int(colour) not in table]
    if unknown:
        first = unknown[0]
        rgb_text = f"({first >> 16}, {first >> 8 & 255}, {first & 255})"
        why = "is not in the colour map" if colours else "needs a colour map"
        raise RepriError(
            f"{path} is painted in colours and {rgb_text} {why}: name its class, or save class ids as a grey PNG"
        )
    ids = np.array([table[int(colour)] for colour in present])
    return ids[where.reshape(packed.shape)].astype(mask_type(ids.max()))


def _palette() -> list[int]:
    """VOC's palette: red, green and blue of each id in turn."""
    colours = colour_map()
    colours[IGNORE] = IGNORE_COLOUR
    return colours.flatten().tolist()


_PALETTE = _palette()
