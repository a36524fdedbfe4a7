"""Drawing helpers that every program needs: colours of classes, masks laid over images, outlines, sheets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from PIL import Image, ImageFilter

__all__ = ["borders", "colour_map", "highlight", "hue_map", "outline", "overlay", "stack"]

RGB = tuple[int, int, int]
VOID = 255
"""Id of the pixels that belong to no class."""
VOID_COLOUR: RGB = (160, 160, 160)


def colour_map(n: int = 256) -> np.ndarray:
    """Return the colours of PASCAL VOC: the bits of an id, spread over red, green and blue.

    Args:
        n: Number of ids.

    Returns:
        Colours [n, 3] uint8, one row for each id from 0 on.

    Example:
        >>> colour_map()[1].tolist()
        [128, 0, 0]
    """
    ids = np.arange(n)
    colours = np.zeros((n, 3), np.uint8)
    for bit in range(8):
        for channel in range(3):
            colours[:, channel] |= ((ids >> (3 * bit + channel) & 1) << (7 - bit)).astype(np.uint8)
    return colours


def hue_map(n: int = 256) -> np.ndarray:
    """Return bright colours whose hues lie far apart for neighbouring ids; 0 is black and 255 is white.

    Args:
        n: Number of ids.

    Returns:
        Colours [n, 3] uint8, so that ``hue_map()[mask]`` is a coloured mask [H, W, 3].

    Example:
        >>> hue_map()[[0, 255]].tolist()
        [[0, 0, 0], [255, 255, 255]]
    """
    hues = (np.arange(n) * 0.618034) % 1
    colours = np.stack([np.abs(((hues * 6 + shift) % 6) - 3) - 1 for shift in (0, 4, 2)], -1).clip(0, 1)
    colours = (60 + 195 * colours).astype(np.uint8)
    colours[:1], colours[VOID : VOID + 1] = 0, 255
    return colours


def overlay(
    image: np.ndarray,
    mask: np.ndarray,
    colours: Mapping[int, RGB] | None = None,
    opacity: float = 0.45,
    line: RGB | None = None,
) -> np.ndarray:
    """Tint each class of a mask over its image and draw a line around it.

    Args:
        image: [H, W, 3] uint8.
        mask: Class ids [H, W]; 0 is left as it is.
        colours: Id → colour, for ids that have one of their own. The others have VOC's colours, and 255 is grey.
        opacity: How strongly the colours cover the image, from 0 to 1.
        line: Colour of the lines between all ids. None: each region has an inner line in its own colour.

    Returns:
        The drawing [H, W, 3] uint8.

    Example:
        >>> overlay(np.zeros((1, 3, 3), np.uint8), np.array([[0, 1, 1]]), {1: (200, 100, 0)}, opacity=0.5)[0].tolist()
        [[0, 0, 0], [200, 100, 0], [100, 50, 0]]
    """
    known = {VOID: VOID_COLOUR, **(colours or {})}
    table = colour_map()
    shown = image.astype(np.float32)
    for id in np.unique(mask).tolist():
        if id == 0:
            continue
        region = mask == id
        colour = np.array(known.get(id, table[id % 256]), np.float32)
        shown[region] = (1 - opacity) * shown[region] + opacity * colour
        if line is None:
            shown[outline(region)] = colour
    if line is not None:
        shown[borders(mask)] = line
    return shown.astype(np.uint8)


def outline(region: np.ndarray) -> np.ndarray:
    """Find the pixels of a region that touch a pixel outside it; the image's edge does not count as outside.

    Args:
        region: bool [H, W].

    Returns:
        bool [H, W].

    Example:
        >>> outline(np.array([[0, 1, 1, 1, 0]], bool)).astype(int).tolist()
        [[0, 1, 0, 1, 0]]
    """
    padded = np.pad(region, 1, mode="edge")
    inner = padded[:-2, 1:-1] & padded[2:, 1:-1] & padded[1:-1, :-2] & padded[1:-1, 2:]
    return region & ~inner


def borders(mask: np.ndarray) -> np.ndarray:
    """Find the pixels of a mask whose left or upper neighbour has another id.

    Args:
        mask: Ids [H, W].

    Returns:
        bool [H, W]: a line one pixel wide between any two ids.

    Example:
        >>> borders(np.array([[0, 2, 2, 0]])).astype(int).tolist()
        [[0, 1, 0, 1]]
    """
    edge = np.zeros(mask.shape, bool)
    edge[:, 1:] |= mask[:, 1:] != mask[:, :-1]
    edge[1:] |= mask[1:] != mask[:-1]
    return edge


def highlight(image: np.ndarray, region: np.ndarray, line: RGB = (230, 26, 26), width: int | None = None) -> np.ndarray:
    """Show one region as it is, fade the rest of the image, and draw a line around the region.

    Args:
        image: [H, W, 3] uint8.
        region: bool [H, W].
        line: Colour of the line.
        width: Width of the line in pixels. None: an eightieth of the image's longer side.

    Returns:
        The drawing [H, W, 3] uint8.
    """
    width = max(1, max(region.shape) // 80) if width is None else width
    inside = Image.fromarray(region.astype(np.uint8) * 255)
    grown = np.asarray(inside.filter(ImageFilter.MaxFilter(2 * width + 1))) > 0
    faded = (0.3 * image.astype(np.float32) + 127.5).round().astype(np.uint8)
    shown = np.where(region[..., None], image, faded)
    shown[grown & ~region] = line
    return shown


def stack(rows: Sequence[np.ndarray]) -> np.ndarray:
    """Put images under each other on a white sheet that is as wide as the widest of them.

    Args:
        rows: Images [height, width, 3] uint8 of any size.

    Returns:
        The sheet [sum of the heights, largest width, 3] uint8.

    Example:
        >>> stack([np.zeros((2, 3, 3), np.uint8), np.zeros((1, 5, 3), np.uint8)]).shape
        (3, 5, 3)
    """
    sheet = np.full((sum(len(row) for row in rows), max(row.shape[1] for row in rows), 3), 255, np.uint8)
    top = 0
    for row in rows:
        sheet[top : top + len(row), : row.shape[1]] = row
        top += len(row)
    return sheet
