"""Overlapping tiles of a large image."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["starts", "window"]


def starts(length: int, side: int) -> list[int]:
    """Places at which tiles of a given side begin, overlapping by a quarter or more."""
    if length <= side:
        return [0]
    count = 1 + -(-(length - side) // (3 * side // 4))
    return [round(i * (length - side) / (count - 1)) for i in range(count)]


def window(side: int) -> Tensor:
    """Weights [side] of a tile's pixels, low at its border."""
    ramp = (torch.arange(side) + 0.5) / side
    return (torch.minimum(ramp, 1 - ramp) * 8).clamp(max=1)
