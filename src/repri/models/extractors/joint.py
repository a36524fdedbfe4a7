"""Features of several extractors side by side, cell by cell."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from repri.features.extractor import FeatureExtractor, InputRule, fingerprint_of
from repri.runtime.errors import RepriError

from .stitched import StitchedExtractor

__all__ = ["JointExtractor"]


class JointExtractor(FeatureExtractor):
    """Features [B, C₁ + C₂ + …, h, w] of several extractors, interpolated to the grid of the first.

    Args:
        parts: The extractors, at least one.

    Example:
        >>> from repri import load_extractor
        >>> from repri.models.extractors.scaled import ScaledExtractor
        >>> joint = JointExtractor([load_extractor("lowlevel"), ScaledExtractor(load_extractor("filters"), 0.5)])
        >>> joint.extract(torch.rand(1, 3, 32, 48)).shape
        torch.Size([1, 396, 16, 24])
    """

    def __init__(self, parts: Sequence[FeatureExtractor]):
        if not parts:
            raise RepriError("A joint extractor needs at least one part.")
        self.parts, first = tuple(parts), parts[0]
        self.name = " + ".join(part.name for part in parts)
        self.channels = sum(part.channels for part in parts)
        self.stride, self.on_pixels = first.stride, first.on_pixels
        self.rule = InputRule(first.rule.size, math.lcm(*(part.rule.multiple for part in parts)))
        self.device = torch.device(getattr(first, "device", "cpu"))
        self.networks = sum(part.networks for part in parts)
        self.seen = tuple(dict.fromkeys(name for part in parts for name in part.seen))

    def cells(self, pixels: tuple[int, int]) -> tuple[int, int]:
        """Rows and columns of cells of the first part for an input of some height and width."""
        return self.parts[0].cells(pixels)

    def between(self, features: Tensor, pixels: tuple[int, int], rows: Tensor, columns: Tensor) -> Tensor:
        """Features between the cells of the first part."""
        return self.parts[0].between(features, pixels, rows, columns)

    def _forward(self, images: Tensor) -> Tensor:
        maps = [part.extract(images) for part in self.parts]  # each with its own normalisation
        pixels = (images.shape[-2], images.shape[-1])
        rows, columns = self.parts[0].grid(pixels).places()
        moved = [
            part.between(features, pixels, rows, columns)
            for part, features in zip(self.parts[1:], maps[1:], strict=True)
        ]
        return torch.cat([maps[0], *(m.to(maps[0].device) for m in moved)], 1)

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
