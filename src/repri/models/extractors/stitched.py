"""Finer features from the same network: it looks at shifted copies of a picture, and their cells are interleaved."""

from __future__ import annotations

import itertools

import torch
import torch.nn.functional as F
from torch import Tensor

from repri.features.extractor import FeatureExtractor, fingerprint_of

__all__ = ["StitchedExtractor"]


class StitchedExtractor(FeatureExtractor):
    """``under`` at ``shifts``² places: that many times its cells, and its time.

    A larger picture has more cells too, but shows the network larger objects than it knows.
    """

    def __init__(self, under: FeatureExtractor, shifts: int):
        if isinstance(shifts, bool) or not isinstance(shifts, int) or shifts < 1:
            raise ValueError(f"shifts must be an integer of at least 1, got {shifts!r}")
        if under.stride % shifts:
            known = ", ".join(str(n) for n in range(2, under.stride + 1) if under.stride % n == 0)
            raise ValueError(
                f"shifts: the cells of {under.name} are {under.stride} pixels wide, which {shifts} shifts do not divide"
                f": take one of {known}"
            )
        self.under, self.shifts, self.name = under, shifts, f"{under.name}, {shifts} shifts"
        self.channels, self.rule = under.channels, under.rule
        self.stride, self.strided = under.stride // shifts, under.strided
        self.device = torch.device(getattr(under, "device", "cpu"))
        self.whitening, self.seen, self.background = under.whitening, under.seen, under.background
        # where the cells of each copy begin: on every so many pixels, or around the middle of the cell that they share
        middle = 0 if under.strided else (under.stride - self.stride + 1) // 2
        self.starts = [shift * self.stride - middle for shift in range(shifts)]

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
        if self.strided:  # the last copies' last cells may lie beyond the picture
            out = out[..., : -(-height // self.stride), : -(-width // self.stride)]
        return out

    @property
    def widths(self) -> tuple[int, ...]:
        return self.under.widths

    @property
    def fingerprint(self) -> str:
        return fingerprint_of([self.under.fingerprint, "stitched", self.shifts], ())

    @property
    def identity(self) -> str:
        return fingerprint_of([self.under.identity, "stitched", self.shifts], ())
