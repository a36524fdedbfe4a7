"""Where the cells of a feature map lie on the pixels that the network sees."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = ["Grid"]

Size = tuple[int, int]


@dataclass(frozen=True)
class Grid:
    """The cells of a feature map.

    Example:
        >>> Grid.of((53, 53), (417, 417), 8, on_pixels=False).on_pixels  # 53 cells reach from corner to corner
        True
        >>> Grid.of((30, 30), (420, 420), 14, on_pixels=False).places()[0][:3]
        tensor([ 6.5000, 20.5000, 34.5000])
    """

    cells: Size
    """Rows and columns of cells."""
    pixels: Size
    """Height and width of the network's input."""
    stride: int
    """Pixels from one cell to the next."""
    on_pixels: bool
    """True: cell (i, j) lies on pixel (i·stride, j·stride), as in strided convolutions. False: the cells tile the
    input, as patches do."""

    @classmethod
    def of(cls, cells: Size, pixels: Size, stride: int, on_pixels: bool) -> Grid:
        """The grid of a network; cells whose outer ones fall on the outer pixels lie on pixels, whatever the network
        says.

        Args:
            cells: Rows and columns of cells.
            pixels: Height and width of the network's input.
            stride: Pixels from one cell to the next.
            on_pixels: Whether the network's cells always lie on pixels.

        Returns:
            The grid.
        """
        corners = all((count - 1) * stride + 1 == side for count, side in zip(cells, pixels, strict=True))
        return cls(cells, pixels, stride, on_pixels or corners)

    def places(self) -> tuple[Tensor, Tensor]:
        """Rows [h] and columns [w] of the pixels, as float, on which the centres of the cells lie."""
        rows, columns = (self._axis(*sides) for sides in zip(self.cells, self.pixels, strict=True))
        return rows, columns

    def _axis(self, cells: int, pixels: int) -> Tensor:
        index = torch.arange(cells, dtype=torch.float32)
        return index * self.stride if self.on_pixels else (index + 0.5) * (pixels / cells) - 0.5

    def sample(self, values: Tensor) -> Tensor:
        """The pixel on which, or in the middle of whose tile, each cell lies: […, H, W] → […, h, w]."""
        first = 0 if self.on_pixels else self.stride // 2
        rows, columns = (
            (torch.arange(count) * self.stride + first).clamp_max(side - 1)
            for count, side in zip(self.cells, values.shape[-2:], strict=True)
        )
        return values[..., rows, :][..., columns]

    def pool(self, values: Tensor) -> Tensor:
        """Means over the pixels around each cell: [N, H, W] → [N, h, w]; pixels outside the input count as 0."""
        if not self.on_pixels:
            even = tuple(count * self.stride for count in self.cells) == tuple(values.shape[-2:])
            return F.avg_pool2d(values, self.stride) if even else F.adaptive_avg_pool2d(values, self.cells)
        half = self.stride // 2
        after = [count * self.stride - half - side for count, side in zip(self.cells, values.shape[-2:], strict=True)]
        return F.avg_pool2d(F.pad(values, (half, after[1], half, after[0])), self.stride)

    def upsample(self, maps: Tensor) -> Tensor:
        """Maps of cells at the pixels of the input, bilinearly, each cell at its true place: […, h, w] → […, H, W]."""
        flat = maps.reshape(-1, 1, *maps.shape[-2:]).float()
        if self.on_pixels:
            reach = [(count - 1) * self.stride + 1 for count in flat.shape[-2:]]
            full = F.interpolate(flat, reach, mode="bilinear", align_corners=True)
            missing = [max(0, side - length) for side, length in zip(self.pixels, reach, strict=True)]
            full = F.pad(full, (0, missing[1], 0, missing[0]), mode="replicate")
            full = full[..., : self.pixels[0], : self.pixels[1]]
        else:
            full = F.interpolate(flat, self.pixels, mode="bilinear", align_corners=False)
        return full.reshape(*maps.shape[:-2], *self.pixels)

    def spread(self) -> tuple[Tensor, Tensor]:
        """Matrices R [H, h] and S [W, w] with ``upsample(maps) = R @ maps @ Sᵀ``.

        Example:
            >>> Grid.of((1, 2), (2, 4), 2, on_pixels=False).spread()[1]
            tensor([[1.0000, 0.0000],
                    [0.7500, 0.2500],
                    [0.2500, 0.7500],
                    [0.0000, 1.0000]])
        """
        rows, columns = (
            _spread(*sides, self.stride, self.on_pixels) for sides in zip(self.cells, self.pixels, strict=True)
        )
        return rows, columns

    def stretch(self, maps: Tensor) -> Tensor:
        """As :meth:`upsample`, with the outer cells on the outer pixels, as the authors do."""
        flat = maps.reshape(-1, 1, *maps.shape[-2:]).float()
        full = F.interpolate(flat, self.pixels, mode="bilinear", align_corners=True)
        return full.reshape(*maps.shape[:-2], *self.pixels)

    def interpolate(self, maps: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
        """Values of maps [B, C, h, w] between the cells, at pixel rows [m] and columns [n]: [B, C, m, n]."""
        scaled = []
        for place, cells, pixels in zip((rows, columns), self.cells, self.pixels, strict=True):
            cell = place / self.stride if self.on_pixels else (place + 0.5) * (cells / pixels) - 0.5
            scaled.append((2 * cell + 1) / cells - 1)
        y, x = torch.meshgrid(*scaled, indexing="ij")
        where = torch.stack([x, y], -1).to(maps).expand(len(maps), -1, -1, -1)
        return F.grid_sample(maps, where, padding_mode="border", align_corners=False)


@lru_cache(64)
def _spread(cells: int, pixels: int, stride: int, on_pixels: bool) -> Tensor:
    """[pixels, cells]: how one axis is upsampled, which is what it makes of each cell alone."""
    axis = Grid((cells, 1), (pixels, 1), stride, on_pixels)
    return axis.upsample(torch.eye(cells)[:, :, None])[..., 0].T.contiguous()
