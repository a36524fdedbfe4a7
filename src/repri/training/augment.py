"""Flips of training images: what happens to an image depends on (seed, epoch, place) and nothing else."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import NamedTuple

__all__ = ["Flip", "Flips"]


class Flip(NamedTuple):
    """How one image is flipped in one epoch."""

    mirrored: bool = False
    """Left ↔ right."""
    upside_down: bool = False
    """Top ↔ bottom."""

    @property
    def axes(self) -> list[int]:
        """The axes to flip of an array […, H, W]."""
        return [-1] * self.mirrored + [-2] * self.upside_down


@dataclass(frozen=True)
class Flips:
    """Which flips occur in training, each for every other image.

    Example:
        >>> flips = Flips(mirror=True)
        >>> [flips.draw(seed=0, epoch=0, place=place).axes for place in range(4)]
        [[], [], [], [-1]]
    """

    mirror: bool = False
    """Whether images are flipped left ↔ right."""
    vertical: bool = False
    """Whether images are flipped top ↔ bottom."""

    def draw(self, seed: int, epoch: int, place: int) -> Flip:
        """The flip of the image at a place of the list, in one epoch."""
        draw = random.Random(f"{seed}/{epoch}/{place}").random
        *_, mirror, vertical = (draw() for _ in range(6))  # the first four belonged to transforms of earlier versions
        return Flip(self.mirror and mirror < 0.5, self.vertical and vertical < 0.5)
