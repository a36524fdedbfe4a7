"""The few directions of an extractor's features that its whitening keeps."""

from __future__ import annotations

import torch
from torch import Tensor

from repri.features.extractor import FeatureExtractor, fingerprint_of
from repri.features.grid import Grid
from repri.features.whitening import MappedWhitening
from repri.runtime.errors import RepriError

__all__ = ["ProjectedExtractor"]


class ProjectedExtractor(FeatureExtractor):
    """Another extractor whose features are projected to the r directions of its whitening: [B, r, h, w].

    The result is not brought to length 1, so it can stand beside other features.

    Args:
        under: The extractor, which must know its whitening.

    Example:
        >>> from repri import load_extractor
        >>> ProjectedExtractor(load_extractor("twin", layers=["twin4"])).channels
        64
    """

    def __init__(self, under: FeatureExtractor):
        if under.whitening is None:
            raise RepriError(f"{under.name} does not know how its features spread, so they cannot be projected.")
        self.under, self.name = under, f"{under.name}, projected"
        self.rule, self.stride, self.on_pixels, self.seen = under.rule, under.stride, under.on_pixels, under.seen
        self.device = torch.device(getattr(under, "device", "cpu"))
        self.projection = under.whitening.to(self.device)
        self.channels = self.projection.project(torch.zeros(under.channels, 1, device=self.device)).shape[0]
        # Projected features are whitened ones already, up to their length.
        self.whitening = MappedWhitening(torch.eye(self.channels), torch.zeros(self.channels))

    def cells(self, pixels: tuple[int, int]) -> tuple[int, int]:
        """Rows and columns of cells of ``under``."""
        return self.under.cells(pixels)

    def grid(self, pixels: tuple[int, int]) -> Grid:
        """Where the cells of ``under`` lie."""
        return self.under.grid(pixels)

    def between(self, features: Tensor, pixels: tuple[int, int], rows: Tensor, columns: Tensor) -> Tensor:
        """Features between the cells of ``under``."""
        return self.under.between(features, pixels, rows, columns)

    def _forward(self, images: Tensor) -> Tensor:
        return torch.stack([self.projection.project(features) for features in self.under._forward(images)])

    @property
    def fingerprint(self) -> str:
        """Hash of the fingerprint of ``under`` and of its whitening."""
        return self._hash(self.under.fingerprint)

    @property
    def identity(self) -> str:
        """Hash of the identity of ``under`` and of its whitening."""
        return self._hash(self.under.identity)

    def _hash(self, under: str) -> str:
        tensors = {name: value for name, value in self.projection._asdict().items() if isinstance(value, Tensor)}
        return fingerprint_of([under, "projected"], tensors.items())
