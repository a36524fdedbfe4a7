"""How an image is looked at: as a whole or in tiles, mirrored or not, at one or several sizes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from repri.features.extractor import FeatureExtractor, features_of
from repri.features.view import View
from repri.protocols import get_protocol

from .presence import whitened
from .tiles import starts, window

__all__ = ["Look", "Seen"]

CLEAN = get_protocol("clean")
"""The protocol of a person's own images."""


@dataclass(frozen=True, eq=False)
class Seen:
    """The cells of one image: of the whole, or of its tiles one below the other."""

    features: Tensor
    """[C, h, w]."""
    white: Tensor
    """[r, h, w] whitened features, by which kinds of objects are told apart."""
    valid: Tensor
    """bool [h, w]: cells inside the image."""
    views: tuple[View, ...]
    """The view of the whole, or of each tile."""
    corners: tuple[tuple[int, int], ...]
    """Top and left of each tile."""
    size: tuple[int, int]
    """Height and width of the image."""
    mirrored: bool

    def restore(self, maps: Tensor) -> Tensor:
        """Maps [N, h, w] of cells at the image's own size, [N, H, W]."""
        full = self.views[0].restore(maps) if len(self.views) == 1 else self._blended(maps)
        return full.flip(-1) if self.mirrored else full

    def _blended(self, maps: Tensor) -> Tensor:
        """Overlapping tiles, each weighted less towards its border."""
        parts = maps.unflatten(1, (len(self.views), -1)).movedim(1, 0)  # [n, N, h, w]
        height, width = self.views[0].original
        weights = window(height)[:, None] * window(width)
        total, weight = torch.zeros(len(maps), *self.size), torch.zeros(self.size)
        for (top, left), view, part in zip(self.corners, self.views, parts, strict=True):
            place = (slice(top, top + height), slice(left, left + width))
            total[:, place[0], place[1]] += view.restore(part) * weights
            weight[place] += weights
        return total / weight


@dataclass(frozen=True)
class Look:
    """The extractor, and how it looks at images."""

    extractor: FeatureExtractor
    size: int
    """Long side in pixels."""
    mirror: bool = False
    """Whether the mirror image is looked at too."""
    scales: tuple[float, ...] = (1.0,)
    """Factors of the size; the results are averaged."""
    tile: int | None = None
    """Images whose long side is larger are looked at in tiles of this many pixels."""

    def ways(self) -> list[tuple[float, bool]]:
        """Scale and mirroring of each look."""
        return [(scale, mirrored) for scale in self.scales for mirrored in ((False, True) if self.mirror else (False,))]

    def tiled(self, image: np.ndarray) -> bool:
        """Whether an image is looked at in tiles."""
        return self.tile is not None and max(image.shape[:2]) > self.tile

    def see(self, image: np.ndarray, scale: float = 1.0, mirrored: bool = False) -> Seen:
        """One look at an image [H, W, 3]."""
        image = np.ascontiguousarray(image[:, ::-1]) if mirrored else image
        height, width = image.shape[:2]
        if self.tile is None or not self.tiled(image):
            corners, side = [(0, 0)], (height, width)
        else:
            side = (min(self.tile, height), min(self.tile, width))
            corners = [(top, left) for top in starts(height, side[0]) for left in starts(width, side[1])]
        size = max(self.extractor.stride, round(self.size * scale))
        view = self.extractor.view(side, CLEAN.resize, size)
        see = partial(self._cells, view=view)
        parts = [see(image[top : top + side[0], left : left + side[1]]) for top, left in corners]
        features, white = (torch.cat(tensors, 1) for tensors in zip(*parts, strict=True))
        valid = view.valid().repeat(len(corners), 1)
        views = (view,) * len(corners)
        return Seen(features, white, valid, views, tuple(corners), (height, width), mirrored)

    def recall(self, size: tuple[int, int], features: Tensor, white: Tensor | None = None) -> Seen:
        """The look at a whole image whose features were kept.

        Args:
            size: Height and width of the image.
            features: [C, h, w] ``see(image).features``.
            white: [r, h, w] ``see(image).white``; None: the extractor's own whitening computes them again.

        Returns:
            The same as ``see(image)``, to the bit.
        """
        view = self.extractor.view(size, CLEAN.resize, max(self.extractor.stride, self.size))
        if white is None:
            assert self.extractor.whitening is not None
            white = self.extractor.whitening(features)
        return Seen(features, white, view.valid(), (view,), ((0, 0),), size, False)

    def _cells(self, image: np.ndarray, view: View) -> tuple[Tensor, Tensor]:
        features = features_of(self.extractor, image, view, CLEAN.precision)
        return features, whitened(self.extractor, features, view, image)
