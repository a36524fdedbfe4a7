"""Another extractor that gets the image larger or smaller than it is given."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from repri.features.extractor import FeatureExtractor, fingerprint_of
from repri.runtime.errors import RepriError

__all__ = ["ScaledExtractor"]


class ScaledExtractor(FeatureExtractor):
    """Another extractor on an input of ``factor`` times the size, with the cells that it has there.

    So a joint extractor can show each of its parts the image at the size that suits it. The cells of ``under`` seldom
    lie a whole number of pixels of the given input apart: ``stride`` is the nearest one. A view takes it that the cells
    tile the input, and :meth:`between` knows where they really lie.

    Args:
        under: The extractor that gets the resized input.
        factor: Sides of the resized input over those of the given one, above 0.

    Example:
        >>> from repri import load_extractor
        >>> half = ScaledExtractor(load_extractor("filters"), 0.5)
        >>> half.stride, half.extract(torch.rand(1, 3, 32, 48)).shape
        (8, torch.Size([1, 256, 4, 6]))
    """

    on_pixels = False

    def __init__(self, under: FeatureExtractor, factor: float):
        if isinstance(factor, bool) or not isinstance(factor, int | float) or not 0 < factor < math.inf:
            raise RepriError(f"factor must be a finite number above 0, got {factor!r}.")
        self.under, self.factor, self.name = under, float(factor), f"{under.name} at {factor:g} times the size"
        self.channels, self.stride = under.channels, max(1, round(under.stride / factor))
        self.rule = under.rule._replace(size=max(1, round(under.rule.size / factor)), multiple=1)
        self.device = torch.device(getattr(under, "device", "cpu"))
        self.whitening, self.seen, self.background = under.whitening, under.seen, under.background
        self.networks = under.networks

    def resized(self, pixels: tuple[int, int]) -> tuple[int, int]:
        """Height and width of what ``under`` gets for an input of some height and width."""
        multiple = self.under.rule.multiple
        least = -(-self.under.stride // multiple)
        height, width = (max(least, round(side * self.factor / multiple)) * multiple for side in pixels)
        return height, width

    def cells(self, pixels: tuple[int, int]) -> tuple[int, int]:
        """Rows and columns of cells of ``under`` for the resized input."""
        return self.under.cells(self.resized(pixels))

    def between(self, features: Tensor, pixels: tuple[int, int], rows: Tensor, columns: Tensor) -> Tensor:
        """Features between the cells of ``under``, each at its true place."""
        resized = self.resized(pixels)
        places = [
            (place + 0.5) * (new / side) - 0.5
            for place, new, side in zip((rows, columns), resized, pixels, strict=True)
        ]
        return self.under.between(features, resized, places[0], places[1])

    def _forward(self, images: Tensor) -> Tensor:
        pixels = (images.shape[-2], images.shape[-1])
        resized = self.resized(pixels)
        if resized != pixels:
            images = F.interpolate(images, resized, mode="bilinear", align_corners=False, antialias=True)
        return self.under._forward(images)

    @property
    def widths(self) -> tuple[int, ...]:
        """Channels of each layer of ``under``."""
        return self.under.widths

    @property
    def fingerprint(self) -> str:
        """Hash of the fingerprint of ``under`` and of the factor."""
        return fingerprint_of([self.under.fingerprint, "scaled", self.factor], ())

    @property
    def identity(self) -> str:
        """Hash of the identity of ``under`` and of the factor."""
        return fingerprint_of([self.under.identity, "scaled", self.factor], ())
