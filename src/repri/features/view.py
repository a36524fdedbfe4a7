"""One image as a network sees it: resized, padded, divided into cells; and the way back to the image's own size.

A :class:`View` is made by :meth:`repri.features.FeatureExtractor.view` and is the only type that knows where the
cells of a feature map lie on an image."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from repri.inference.labels import IGNORE, nearest_labels
from repri.runtime.errors import RepriError
from repri.runtime.limits import check_cost

from .grid import Grid
from .labels import cell_labels

__all__ = ["Resize", "View", "resized"]

Resize = Literal["aspect", "square", "letterbox"]
"""How an image becomes the network's input; :mod:`repri.protocols` explains each."""
Size = tuple[int, int]
"""Height and width."""


@dataclass(frozen=True)
class View:
    """One image on its way to the network and back.

    Example:
        >>> from repri import load_extractor
        >>> view = load_extractor("filters").view((375, 500))
        >>> view.full, view.grid.cells
        ((192, 256), (48, 64))
        >>> view.restore(torch.rand(48, 64)).shape
        torch.Size([375, 500])
    """

    resize: Resize
    """How the image was resized."""
    original: Size
    """Height and width of the image itself."""
    content: Size
    """Height and width of the resized image, without padding."""
    full: Size
    """Height and width of the network's input. The padding lies at the bottom and right."""
    grid: Grid
    """Where the cells of the features lie on the network's input."""

    def pixels(self, image: np.ndarray) -> Tensor:
        """The network's input.

        Args:
            image: [H, W, 3] uint8.

        Returns:
            [3, H′, W′] float in [0, 1] at full size.
        """
        (height, width), smooth = self.content, self.resize != "letterbox"
        values = torch.from_numpy(np.ascontiguousarray(image)).movedim(-1, 0)[None]
        if self.content != self.original:
            # Levels of 8 bits are far faster to smooth; the authors interpolate unrounded ones.
            values = values if smooth else values.float()
            values = F.interpolate(values, self.content, mode="bilinear", align_corners=False, antialias=smooth)
        out = torch.zeros(3, *self.full)
        torch.div(values[0], 255, out=out[:, :height, :width])
        if smooth:  # the padding repeats the edge
            out[:, height:, :width] = out[:, height - 1 : height, :width]
            out[:, :, width:] = out[:, :, width - 1 : width]
        return out

    def mask(self, mask: np.ndarray) -> Tensor:
        """A mask at the size of the network's input, by nearest resizing.

        Args:
            mask: [H, W] class ids or soft values.

        Returns:
            [H′, W′] at full size, 255 in the padding.
        """
        (height, width), mask = self.content, mask.astype(np.uint8) if mask.dtype == bool else mask
        ids = mask if self.content == self.original else self._nearest(mask)
        ids = torch.from_numpy(np.ascontiguousarray(ids) if ids.dtype != np.uint16 else ids.astype(np.int32))
        labels = torch.full(self.full, IGNORE, dtype=ids.dtype)
        labels[:height, :width] = ids
        return labels

    def labels(self, mask: np.ndarray, how: Literal["area", "nearest", "centre"] = "area", classes: int = 1) -> Tensor:
        """A mask at the cells of the features; see :func:`repri.features.labels.cell_labels`.

        Args:
            mask: [H, W] with 0 … N and 255, or soft values of one class.
            how: ``area`` (fraction of a cell), ``nearest`` (as the authors do), ``centre`` (the pixel at the cell).
            classes: N.

        Returns:
            [h, w] labels, 255 where nothing is labelled.
        """
        return cell_labels(mask, self, how, classes)

    def valid(self) -> Tensor:
        """bool [h, w]: whether each cell lies inside the image, not in the padding."""
        inside = torch.zeros(self.full, dtype=torch.bool)
        inside[: self.content[0], : self.content[1]] = True
        return nearest_labels(inside[None], self.grid.cells)[0]

    def restore(self, maps: Tensor) -> Tensor:
        """A map of cells at the image's own size: the padding is cut off, the rest is interpolated bilinearly.

        Args:
            maps: […, h, w] values at the cells.

        Returns:
            […, H, W] values at the pixels of the image.
        """
        height, width = self.content
        cut = self.grid.upsample(maps)[..., :height, :width]
        whole = F.interpolate(cut.reshape(-1, 1, height, width), self.original, mode="bilinear", align_corners=False)
        return whole.reshape(*maps.shape[:-2], *self.original)

    def resample(self, maps: Tensor, other: View, flipped: tuple[bool, bool] = (False, False)) -> Tensor:
        """A map on this view's cells, interpolated at the cells of another view of the same image.

        Args:
            maps: [C, h, w] values at the cells of this view.
            other: The view at whose cells the values are wanted.
            flipped: Whether the other view shows the image flipped left ↔ right, and top ↔ bottom.

        Returns:
            [C, h′, w′], zero at the cells of the other view that lie in its padding.
        """
        places, inside = [], []
        for axis, turned in ((0, flipped[1]), (1, flipped[0])):
            pixel = other.grid.places()[axis]
            fraction = (pixel + 0.5) / other.content[axis]
            fraction = 1 - fraction if turned else fraction
            places.append(fraction * self.content[axis] - 0.5)
            inside.append(pixel < other.content[axis])
        values = self.grid.interpolate(maps[None], places[0], places[1])[0]
        return values * (inside[0][:, None] & inside[1][None])

    def _nearest(self, ids: np.ndarray) -> np.ndarray:
        """[H, W] → content size: the source pixel at the corner of each new one, as OpenCV computes it, or its
        centre."""
        picked = []
        for new, old in zip(self.content, ids.shape, strict=True):
            if self.resize == "letterbox":
                index = np.arange(new) * (1 / (new / old))
            else:
                index = (np.arange(new) + 0.5) * (old / new)
            picked.append(index.astype(np.intp).clip(max=old - 1))
        return ids.take(picked[0], 0).take(picked[1], 1)


def resized(original: Size, resize: Resize, size: int, multiple: int | None, square: bool = False) -> tuple[Size, Size]:
    """Content and full size of an image under a resize rule.

    Args:
        original: Height and width of the image.
        resize: The rule.
        size: Long side in pixels.
        multiple: Number that both sides must be multiples of; None: 8 for ``letterbox``, 1 for the others.
        square: Whether the padding goes on to a square, so that images of different shapes fit one batch.

    Returns:
        Height and width of the resized image, and of the network's input.

    Example:
        >>> resized((375, 500), "letterbox", 417, None)
        ((312, 416), (417, 417))
    """
    step = multiple or (8 if resize == "letterbox" else 1)
    if min(original) < 1 or size < step:
        raise RepriError(f"An image of {original[1]}×{original[0]} pixels cannot be resized to {size} pixels.")
    check_cost("REPRI_MAX_SIZE", size, "An image for the network")
    longest = max(original)
    if resize == "square":
        sides = [size, size]
    elif resize == "letterbox":
        scaled = (size if side == longest else int(side * (size / longest)) for side in original)
        sides = [max(side // step * step, step) for side in scaled]
    elif resize == "aspect":
        sides = [max(round(side * size / longest), 1) for side in original]
    else:
        raise RepriError(f"There is no resize rule named {resize!r}. Known: aspect, square, letterbox.")
    full = [size, size] if resize == "letterbox" else [-(-side // step) * step for side in sides]
    if square:
        full = [-(-size // step) * step] * 2 if resize != "letterbox" else full
    return (sides[0], sides[1]), (full[0], full[1])
