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

from .images import IGNORE

__all__ = ["ResizeRule", "Resized", "content_size", "resize", "restore"]

ResizeRule = Literal["official", "paper", "clean"]


class Resized(NamedTuple):
    image: Tensor
    """[3, H, W] float in [0, 1]."""
    mask: Tensor | None
    """[H, W] class ids, 255 in the padding."""
    valid: Tensor
    """[H, W] bool: false in the padding."""
    content: tuple[int, int]
    """Height and width without the padding."""
    original: tuple[int, int]
    """Height and width of the file."""


def content_size(height: int, width: int, rule: ResizeRule, size: int, multiple: int = 8) -> tuple[int, int]:
    """Height and width of the picture itself, before padding.

    >>> content_size(375, 500, "official", 417)
    (312, 416)
    """
    longest = max(height, width)
    if rule == "paper":
        return size, size
    if rule == "official":
        scale = size / longest
        sides = (int(side * scale) // multiple * multiple for side in (height, width))
    elif rule == "clean":
        sides = (round(side * size / longest) for side in (height, width))
    else:
        raise ValueError(f"no resize rule named {rule!r}; known: official, paper, clean")
    new_height, new_width = (max(side, multiple if rule == "official" else 1) for side in sides)
    return new_height, new_width


def resize(
    image: np.ndarray, mask: np.ndarray | None, rule: ResizeRule, size: int = 417, multiple: int | None = None
) -> Resized:
    """A picture [H, W, 3] uint8 and its mask [H, W] by one of the rules.

    ``multiple``: what both sides must be multiples of (``official``: 8, as its 417 → 416, unless given;
    the padding to ``size`` follows; ``clean``: the extractor's, 1 unless given).
    """
    original = (image.shape[0], image.shape[1])
    if min(original) == 0 or (mask is not None and mask.shape != original):
        raise ValueError(f"image {original} and mask {None if mask is None else mask.shape} must have one size, not 0")
    step = multiple or (8 if rule == "official" else 1)
    height, width = content = content_size(*original, rule, size, step)
    full = (size, size) if rule == "official" else (-(-height // step) * step, -(-width // step) * step)
    smooth = rule != "official"
    pixels = torch.from_numpy(np.ascontiguousarray(image)).movedim(-1, 0)[None]
    if content != original:
        # Levels of 8 bits are far faster to smooth; the authors interpolate unrounded ones.
        pixels = pixels if smooth else pixels.float()
        pixels = F.interpolate(pixels, content, mode="bilinear", align_corners=False, antialias=smooth)
    out = torch.zeros(3, *full)
    torch.div(pixels[0], 255, out=out[:, :height, :width])
    valid = torch.zeros(full, dtype=torch.bool)
    valid[:height, :width] = True
    if smooth:
        out[:, height:, :width] = out[:, height - 1 : height, :width]
        out[:, :, width:] = out[:, :, width - 1 : width]
    labels = None
    if mask is not None:
        ids = mask if content == original else _nearest(mask, content, centred=smooth)
        ids = torch.from_numpy(np.ascontiguousarray(ids) if ids.dtype != np.uint16 else ids.astype(np.int32))
        labels = torch.full(full, IGNORE, dtype=ids.dtype)
        labels[:height, :width] = ids
    return Resized(out, labels, valid, content, original)


def _nearest(ids: np.ndarray, size: tuple[int, int], centred: bool) -> np.ndarray:
    """[H, W] → [h, w]: the source pixel at the corner of each new one, as OpenCV does, or at its centre."""
    shift = 0.5 if centred else 0.0
    rows, columns = (
        ((np.arange(new) + shift) * (old / new)).astype(np.intp).clip(max=old - 1)
        for new, old in zip(size, ids.shape, strict=True)
    )
    return ids.take(rows, 0).take(columns, 1)


def restore(values: Tensor, resized: Resized, align_corners: bool = False) -> Tensor:
    """A map over the resized picture [..., h, w], at any resolution, back to the file's own size [..., H, W].

    The padding is cut off and the rest interpolated bilinearly. ``align_corners``: whether the map's outer
    cells lie on the picture's outer pixels (a network of 8n + 1 → n + 1) or tile it (patches).
    """
    (height, width), (content_height, content_width) = resized.valid.shape, resized.content
    flat = values.reshape(-1, 1, *values.shape[-2:]).float()
    full = F.interpolate(flat, (height, width), mode="bilinear", align_corners=align_corners)
    cut = full[..., :content_height, :content_width]
    whole = F.interpolate(cut, resized.original, mode="bilinear", align_corners=False)
    return whole.reshape(*values.shape[:-2], *resized.original)
