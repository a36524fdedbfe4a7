"""Finer features from the same network: it gets shifted copies of an image, and their cells are interleaved."""

from __future__ import annotations

import itertools

import torch
import torch.nn.functional as F
from torch import Tensor

from repri.features.extractor import FeatureExtractor, fingerprint_of
from repri.runtime.errors import RepriError

__all__ = ["StitchedExtractor"]


class StitchedExtractor(FeatureExtractor):
    """Another extractor on ``shifts``² shifted copies of an image: that many times its cells, and its time.

    A larger image has more cells too, but shows the network larger objects than it was trained on.

    Args:
        under: The extractor that gets the copies.
        shifts: Copies along each side; it must divide the stride of ``under``.
    """

    def __init__(self, under: FeatureExtractor, shifts: int):
        if isinstance(shifts, bool) or not isinstance(shifts, int) or shifts < 1:
            raise RepriError(f"shifts must be an integer of at least 1, got {shifts!r}.")
        if under.stride % shifts:
            known = ", ".join(str(n) for n in range(2, under.stride + 1) if under.stride % n == 0)
            raise RepriError(
                f"shifts: the cells of {under.name} are {under.stride} pixels wide, which {shifts} shifts do not divide"
                f": take one of {known}."
            )
        self.under, self.shifts, self.name = under, shifts, f"{under.name}, {shifts} shifts"
        self.channels, self.rule = under.channels, under.rule
        self.stride, self.on_pixels = under.stride // shifts, under.on_pixels
        self.device = torch.device(getattr(under, "device", "cpu"))
        self.whitening, self.seen, self.background = under.whitening, under.seen, under.background
        self.networks = under.networks
        # First pixel of each copy. Cells on pixels start at the image's first pixel; cells that tile the image are
        # spread evenly around the middle of the cell of ``under``.
        middle = 0 if under.on_pixels else (under.stride - self.stride + 1) // 2
        self.starts = [shift * self.stride - middle for shift in range(shifts)]

    def cells(self, pixels: tuple[int, int]) -> tuple[int, int]:
        """Rows and columns of cells for an input of some height and width; none lies beyond the input."""
        if self.on_pixels:
            return super().cells(pixels)
        rows, columns = self.under.cells(pixels)
        return rows * self.shifts, columns * self.shifts

    def _forward(self, images: Tensor) -> Tensor:
        height, width = images.shape[-2:]
        before, after = -self.starts[0], self.starts[-1]
        padded = F.pad(images, (before, after, before, after), mode="replicate")
        begins = [start + before for start in self.starts]
        out = None
        for (i, top), (j, left) in itertools.product(enumerate(begins), repeat=2):
            part = self.under._forward(padded[..., top : top + height, left : left + width])
            if out is None:
                size = (side * self.shifts for side in part.shape[-2:])
                out = part.new_empty(*part.shape[:2], *size)
            out[..., i :: self.shifts, j :: self.shifts] = part
        assert out is not None
        if self.on_pixels:  # the last cells of the last copies may lie beyond the image
            rows, columns = self.cells((height, width))
            out = out[..., :rows, :columns]
        return out

    @property
    def widths(self) -> tuple[int, ...]:
        """Channels of each layer of ``under``."""
        return self.under.widths

    @property
    def fingerprint(self) -> str:
        """Hash of the fingerprint of ``under`` and of the shifts."""
        return fingerprint_of([self.under.fingerprint, "stitched", self.shifts], ())

    @property
    def identity(self) -> str:
        """Hash of the identity of ``under`` and of the shifts."""
        return fingerprint_of([self.under.identity, "stitched", self.shifts], ())
