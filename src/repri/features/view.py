"""The three ways a picture is brought to the network, each with what of it is real.

``official``  aspect nearly kept: the long side becomes ``size`` floored to a multiple of 8, the short
              one is scaled alike and floored too, then both are padded to ``size``² at the bottom and right
              with black and 255. Linear without anti-aliasing, nearest for masks.
``paper``     ``size``×``size``, whatever the aspect.
``clean``     aspect kept: the long side becomes ``size``; each side is padded to the extractor's
              multiple, no further, by repeating the edge.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from repri.data.io.masks import IGNORE

__all__ = [
    "Geometry",
    "ResizeRule",
    "Resized",
    "geometry",
    "on_corners",
    "resize",
    "resize_image",
    "resize_mask",
    "restore",
    "step_of",
]

ResizeRule = Literal["official", "paper", "clean"]


class Geometry(NamedTuple):
    """Heights and widths on the way from a file to the network."""

    rule: ResizeRule
    original: tuple[int, int]
    """Of the file."""
    content: tuple[int, int]
    """Of the resized picture."""
    full: tuple[int, int]
    """With its padding, which lies at the bottom and right."""

    def valid(self) -> Tensor:
        """bool [H, W] at full size: false in the padding."""
        out = torch.zeros(self.full, dtype=torch.bool)
        out[: self.content[0], : self.content[1]] = True
        return out


class Resized(NamedTuple):
    image: Tensor
    """[3, H, W] float in [0, 1]."""
    mask: Tensor | None
    """[H, W] class ids, 255 in the padding."""
    geometry: Geometry

    @property
    def valid(self) -> Tensor:
        """[H, W] bool: false in the padding."""
        return self.geometry.valid()


def geometry(original: tuple[int, int], rule: ResizeRule, size: int = 417, multiple: int | None = None) -> Geometry:
    """Where a rule takes a picture of a given height and width.

    ``multiple``: what both sides must be multiples of (``official``: 8, as its 417 → 416, unless given;
    the padding to ``size`` follows; ``clean``: the extractor's, 1 unless given).

    >>> geometry((375, 500), "official").content
    (312, 416)
    """
    step = multiple or (8 if rule == "official" else 1)
    if min(original) < 1 or size < step:
        raise ValueError(f"a picture of {original[1]}×{original[0]} cannot be resized to {size}")
    longest = max(original)
    if rule == "paper":
        sides = [size, size]
    elif rule == "official":
        scaled = (size if side == longest else int(side * (size / longest)) for side in original)
        sides = [max(side // step * step, step) for side in scaled]
    elif rule == "clean":
        sides = [max(round(side * size / longest), 1) for side in original]
    else:
        raise ValueError(f"no resize rule named {rule!r}; known: official, paper, clean")
    full = [size, size] if rule == "official" else [-(-side // step) * step for side in sides]
    return Geometry(rule, original, (sides[0], sides[1]), (full[0], full[1]))


def resize(
    image: np.ndarray, mask: np.ndarray | None, rule: ResizeRule, size: int = 417, multiple: int | None = None
) -> Resized:
    """A picture [H, W, 3] uint8 and its mask [H, W] by one of the rules; ``multiple`` as for :func:`geometry`."""
    original = (image.shape[0], image.shape[1])
    if mask is not None and mask.shape != original:
        raise ValueError(f"image {original} and mask {mask.shape} must have one size")
    where = geometry(original, rule, size, multiple)
    return Resized(resize_image(image, where), None if mask is None else resize_mask(mask, where), where)


def resize_image(image: np.ndarray, where: Geometry) -> Tensor:
    """[H, W, 3] uint8 → [3, H, W] float in [0, 1] at full size."""
    (height, width), smooth = where.content, where.rule != "official"
    pixels = torch.from_numpy(np.ascontiguousarray(image)).movedim(-1, 0)[None]
    if where.content != where.original:
        # Levels of 8 bits are far faster to smooth; the authors interpolate unrounded ones.
        pixels = pixels if smooth else pixels.float()
        pixels = F.interpolate(pixels, where.content, mode="bilinear", align_corners=False, antialias=smooth)
    out = torch.zeros(3, *where.full)
    torch.div(pixels[0], 255, out=out[:, :height, :width])
    if smooth:
        out[:, height:, :width] = out[:, height - 1 : height, :width]
        out[:, :, width:] = out[:, :, width - 1 : width]
    return out


def resize_mask(mask: np.ndarray, where: Geometry) -> Tensor:
    """[H, W] ids at full size, 255 in the padding."""
    (height, width), mask = where.content, mask.astype(np.uint8) if mask.dtype == bool else mask
    ids = mask if where.content == where.original else _nearest(mask, where.content, centred=where.rule != "official")
    ids = torch.from_numpy(np.ascontiguousarray(ids) if ids.dtype != np.uint16 else ids.astype(np.int32))
    labels = torch.full(where.full, IGNORE, dtype=ids.dtype)
    labels[:height, :width] = ids
    return labels


def _nearest(ids: np.ndarray, size: tuple[int, int], centred: bool) -> np.ndarray:
    """[H, W] → [h, w]: the source pixel at the corner of each new one, as OpenCV does, or at its centre."""
    shift = 0.5 if centred else 0.0
    rows, columns = (
        ((np.arange(new) + shift) * (old / new)).astype(np.intp).clip(max=old - 1)
        for new, old in zip(size, ids.shape, strict=True)
    )
    return ids.take(rows, 0).take(columns, 1)


def restore(values: Tensor, where: Geometry, step: int | None = None) -> Tensor:
    """A map over the resized picture [..., h, w], at any resolution, back to the file's own size [..., H, W].

    The padding is cut off and the rest interpolated bilinearly. ``step``: the map's cells lie on every so many pixels,
    from the first on, as those of strided convolutions do; None: they tile the picture, as patches do.
    """
    height, width = where.content
    flat = values.reshape(-1, 1, *values.shape[-2:]).float()
    if step is None:
        full = F.interpolate(flat, where.full, mode="bilinear", align_corners=False)
    else:
        reach = [(cells - 1) * step + 1 for cells in flat.shape[-2:]]
        full = F.interpolate(flat, reach, mode="bilinear", align_corners=True)
        missing = [max(0, side - length) for side, length in zip(where.full, reach, strict=True)]
        full = F.pad(full, (0, missing[1], 0, missing[0]), mode="replicate")
    cut = full[..., :height, :width]
    whole = F.interpolate(cut, where.original, mode="bilinear", align_corners=False)
    return whole.reshape(*values.shape[:-2], *where.original)


def step_of(strided: bool, cells: tuple[int, int], full: tuple[int, int], stride: int) -> int | None:
    """What :func:`restore` wants to know of a network: its stride if its cells lie on pixels, None if they tile."""
    return stride if strided or on_corners(cells, full, stride) else None


def on_corners(cells: tuple[int, int], full: tuple[int, int], stride: int) -> bool:
    """Whether outer cells lie on the outer pixels, as those of strided convolutions on 8n + 1 pixels do."""
    return all((h - 1) * stride + 1 == side for h, side in zip(cells, full, strict=True))
