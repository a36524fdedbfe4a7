"""Training transforms: what happens to an image depends on (seed, epoch, index) and nothing else."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

import numpy as np
from PIL import Image

from repri.data.io.masks import IGNORE

__all__ = ["AUGMENTATIONS", "Augmentation", "augment", "flips"]


@dataclass(frozen=True)
class Augmentation:
    """Which transforms, in the order in which they are applied."""

    scale: tuple[float, float] | None = None
    """Range of the factor by which both sides are multiplied, drawn evenly in its logarithm."""
    rotate: float = 0.0
    """Largest angle in degrees, to both sides."""
    crop: int | None = None
    """Side of a random square; smaller pictures are padded."""
    mirror: bool = False
    """Left ↔ right for every other image."""
    vertical: bool = False
    """Top ↔ bottom for every other image."""

    def __post_init__(self) -> None:
        if self.scale is not None and not 0 < self.scale[0] <= self.scale[1]:
            raise ValueError(f"scale must be a range (low, high) of positive numbers, got {self.scale}")
        if not 0 <= self.rotate <= 180:
            raise ValueError(f"rotate must lie in 0…180 degrees, got {self.rotate}")
        if self.crop is not None and self.crop < 1:
            raise ValueError(f"crop must be at least 1 pixel, got {self.crop}")


AUGMENTATIONS = {
    "none": Augmentation(),
    "paper": Augmentation(mirror=True),
    "clean": Augmentation(mirror=True),
    "official": Augmentation(mirror=True, vertical=True),
}
"""By protocol."""


def augment(
    image: np.ndarray, mask: np.ndarray, how: Augmentation, seed: int, epoch: int, index: int
) -> tuple[np.ndarray, np.ndarray]:
    """Picture [H, W, 3] and mask [H, W], uint8, changed alike; what a rotation or crop uncovers is black and 255."""
    size, angle, top, left, *_ = _draws(seed, epoch, index)
    if how.scale is not None:
        low, high = how.scale
        factor = math.exp(math.log(low) + size * math.log(high / low))
        height, width = (max(1, round(side * factor)) for side in mask.shape)
        image = np.asarray(Image.fromarray(image).resize((width, height), Image.Resampling.BILINEAR))
        mask = np.asarray(Image.fromarray(mask).resize((width, height), Image.Resampling.NEAREST))
    if how.rotate:
        degrees = (2 * angle - 1) * how.rotate
        image = np.asarray(Image.fromarray(image).rotate(degrees, Image.Resampling.BILINEAR))
        mask = np.asarray(Image.fromarray(mask).rotate(degrees, Image.Resampling.NEAREST, fillcolor=IGNORE))
    if how.crop is not None:
        image, mask = _crop(image, mask, how.crop, top, left)
    mirrored, upside_down = flips(how, seed, epoch, index)
    if mirrored:
        image, mask = image[:, ::-1], mask[:, ::-1]
    if upside_down:
        image, mask = image[::-1], mask[::-1]
    return np.ascontiguousarray(image), np.ascontiguousarray(mask)


def flips(how: Augmentation, seed: int, epoch: int, index: int) -> tuple[bool, bool]:
    """Whether :func:`augment` turns this image left ↔ right, and top ↔ bottom."""
    *_, mirror, vertical = _draws(seed, epoch, index)
    return how.mirror and mirror < 0.5, how.vertical and vertical < 0.5


def _draws(seed: int, epoch: int, index: int) -> list[float]:
    """All numbers, whether they are needed or not: switching one transform on leaves the others as they were."""
    draw = random.Random(f"{seed}/{epoch}/{index}").random
    return [draw() for _ in range(6)]


def _crop(image: np.ndarray, mask: np.ndarray, side: int, top: float, left: float) -> tuple[np.ndarray, np.ndarray]:
    """The square of ``side`` whose place is given by two shares of what can be moved."""
    need = [(0, max(0, side - length)) for length in mask.shape]
    image = np.pad(image, [*need, (0, 0)])
    mask = np.pad(mask, need, constant_values=IGNORE)
    y, x = (int(share * (length - side + 1)) for share, length in zip((top, left), mask.shape, strict=True))
    return image[y : y + side, x : x + side], mask[y : y + side, x : x + side]
