"""Where an image lies on the square input of a region model, and the way back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = ["Frame"]

Size = tuple[int, int]


@dataclass(frozen=True)
class Frame:
    """A square input.

    Example:
        >>> Frame("pad").points(torch.tensor([[[200.0, 100.0]]]), (100, 200))
        tensor([[[1024.,  512.]]])
        >>> Frame("squash").points(torch.tensor([[[200.0, 100.0]]]), (100, 200))
        tensor([[[1024., 1024.]]])
    """

    fit: Literal["pad", "squash"]
    """``pad``: the long side fills the square and zeros fill the rest (SAM); ``squash``: both sides fill it (SAM 2)."""
    side: int = 1024
    """Pixels of the input's side."""
    grid: int = 256
    """Side of the masks that the decoder gives and takes."""

    def content(self, size: Size) -> Size:
        """Height and width that an image takes on the input."""
        if self.fit == "squash":
            return self.side, self.side
        factor = self.side / max(size)
        return max(1, round(size[0] * factor)), max(1, round(size[1] * factor))

    def pixels(self, image: np.ndarray, mean: tuple[float, ...], std: tuple[float, ...]) -> Tensor:
        """[1, 3, S, S] normalised input of an image [H, W, 3] uint8."""
        size = (image.shape[0], image.shape[1])
        height, width = self.content(size)
        values = torch.tensor(image).movedim(-1, 0)[None].float() / 255
        values = F.interpolate(values, (height, width), mode="bilinear", align_corners=False, antialias=True)
        values = (values - torch.tensor(mean).view(3, 1, 1)) / torch.tensor(std).view(3, 1, 1)
        return F.pad(values, (0, self.side - width, 0, self.side - height))

    def points(self, points: Tensor, size: Size) -> Tensor:
        """Points […, 2] (x, y) of the image on the input."""
        height, width = self.content(size)
        return points * torch.tensor([width / size[1], height / size[0]])

    def restore(self, maps: Tensor, size: Size) -> Tensor:
        """Maps [P, M, m, m] of the decoder on a grid [P, M, h, w] that covers the image and nothing else."""
        if self.fit == "squash":
            return maps
        parts = [part / self.side for part in self.content(size)]
        cells = [max(1, round(part * maps.shape[-1])) for part in parts]
        return _sample(maps, cells, parts)

    def fill(self, maps: Tensor, size: Size, outside: float = -10.0) -> Tensor:
        """Maps [P, 1, h, w] that cover the image on the grid [P, 1, m, m] of the decoder."""
        if self.fit == "squash":
            return F.interpolate(maps, (self.grid, self.grid), mode="bilinear", align_corners=False, antialias=True)
        cells = [max(1, round(part / self.side * self.grid)) for part in self.content(size)]
        inner = F.interpolate(maps, cells, mode="bilinear", align_corners=False, antialias=True)
        return F.pad(inner, (0, self.grid - cells[1], 0, self.grid - cells[0]), value=outside)


def _sample(maps: Tensor, cells: list[int], parts: list[float]) -> Tensor:
    """The upper left part of maps (as fractions of their height and width) on a new grid."""
    rows, columns = (
        (torch.arange(n) + 0.5) / n * part * 2 - 1 for n, part in zip(cells, parts, strict=True)
    )  # in [−1, 1]
    places = torch.stack(torch.meshgrid(rows, columns, indexing="ij")[::-1], -1)
    places = places[None].expand(len(maps), -1, -1, -1)
    return F.grid_sample(maps, places, mode="bilinear", padding_mode="border", align_corners=False)
