"""Features of several extractors side by side, cell by cell."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from repri.features.extractor import FeatureExtractor, InputRule, fingerprint_of
from repri.runtime.errors import RepriError

from .stitched import StitchedExtractor

__all__ = ["JointExtractor"]


class JointExtractor(FeatureExtractor):
    """Features [B, C₁ + C₂ + …, h, w] of several extractors, interpolated to the grid of the first.

    Args:
        parts: The extractors, at least one.
    """

    def __init__(self, parts: Sequence[FeatureExtractor]):
        if not parts:
            raise RepriError("A joint extractor needs at least one part.")
        self.parts, first = tuple(parts), parts[0]
        self.name = " + ".join(part.name for part in parts)
        self.channels = sum(part.channels for part in parts)
        self.stride, self.strided = first.stride, first.strided
        self.rule = InputRule(first.rule.size, math.lcm(*(part.rule.multiple for part in parts)))
        self.device = torch.device(getattr(first, "device", "cpu"))
        self.seen = tuple(dict.fromkeys(name for part in parts for name in part.seen))

    def cells(self, pixels: tuple[int, int]) -> tuple[int, int]:
        """Rows and columns of cells of the first part for an input of some height and width."""
        return self.parts[0].cells(pixels)

    def _forward(self, images: Tensor) -> Tensor:
        maps = [part.extract(images) for part in self.parts]  # each with its own normalisation
        size = (maps[0].shape[-2], maps[0].shape[-1])
        moved = [self._to_first(m, part, size) for m, part in zip(maps[1:], self.parts[1:], strict=True)]
        return torch.cat([maps[0], *(m.to(maps[0].device) for m in moved)], 1)

    def _to_first(self, features: Tensor, part: FeatureExtractor, size: tuple[int, int]) -> Tensor:
        """Interpolate features of another part at the pixels of the first part's cells."""
        places = []
        for cells, there in zip(size, features.shape[-2:], strict=True):
            index = torch.arange(cells, device=features.device)
            pixel = index * self.stride if self.strided else (index + 0.5) * self.stride - 0.5
            place = pixel / part.stride if part.strided else (pixel + 0.5) / part.stride - 0.5
            places.append((2 * place + 1) / there - 1)
        rows, columns = torch.meshgrid(*places, indexing="ij")
        grid = torch.stack([columns, rows], -1).expand(len(features), -1, -1, -1)
        return F.grid_sample(features, grid, padding_mode="border", align_corners=False)

    def coarse(self, times: int) -> FeatureExtractor:
        """An extractor of every ``times``-th cell, if the first part has a cheaper equivalent for that; else this one.

        Stitched parts then need one shift only, because their cells are interpolated anyway.
        """
        first, *others = self.parts
        coarse = first.coarse(times)
        if coarse is first:
            return self
        few = [part.under if isinstance(part, StitchedExtractor) and part.shifts <= times else part for part in others]
        return JointExtractor([coarse, *few])

    @property
    def widths(self) -> tuple[int, ...]:
        """Channels of each layer of each part."""
        return tuple(width for part in self.parts for width in part.widths)

    @property
    def fingerprint(self) -> str:
        """Hash of the fingerprints of the parts."""
        return fingerprint_of(["joint", *(part.fingerprint for part in self.parts)], ())

    @property
    def identity(self) -> str:
        """Hash of the identities of the parts."""
        return fingerprint_of(["joint", *(part.identity for part in self.parts)], ())
