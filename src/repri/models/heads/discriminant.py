"""A head in closed form: features in which pixels of one class vary alike in all directions (Fisher's discriminant).

Base classes tell how much a class varies along each direction of a backbone's features. Divided by that, cosines weigh
what classes differ in. The mean of all classes becomes the origin, seen from which backgrounds lie on one side: that
direction is kept, so that a classifier need not learn from a single picture what backgrounds look like.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

__all__ = ["Discriminant", "Moments"]

SHRINKAGE = 1.0
"""Times the mean variance, added to each direction's: those that hardly vary within a class are held back."""


class Moments(NamedTuple):
    """Sums over the cells of each class, background first."""

    count: Tensor
    """[classes]."""
    total: Tensor
    """[classes, C] Σ x."""
    square: Tensor
    """[classes, C, C] Σ x·xᵀ."""

    @classmethod
    def empty(cls, classes: int, channels: int) -> Moments:
        shapes = ((classes,), (classes, channels), (classes, channels, channels))
        return cls(*(torch.zeros(shape, dtype=torch.float64) for shape in shapes))

    def add(self, rows: Tensor, label: int) -> None:
        """Cells [M, C] of one class."""
        rows = rows.double()
        self.count[label] += len(rows)
        self.total[label] += rows.sum(0)
        self.square[label].addmm_(rows.T, rows)  # in place: three times faster at 3,584 channels


class Discriminant(nn.Module):
    """[B, C, h, w] → [B, width, h, w]: A·(x − μ), x made of layers of so many channels (``parts``), each of length 1
    at every cell."""

    mean: Tensor
    """[C] μ: the mean of the classes' means."""
    matrix: Tensor
    """[width, C] A."""
    background: Tensor
    """[width] A·(μ₀ − μ): where backgrounds lie."""

    def __init__(self, parts: Sequence[int], width: int):
        super().__init__()
        channels = sum(parts)
        if min(parts, default=0) < 1 or not 1 <= width <= channels:
            raise ValueError(f"width: a discriminant of {channels} channels has 1 to {channels}, got {width}")
        self.options = {"kind": "discriminant", "parts": list(parts), "width": width}
        self.out_channels, self.upsample, self.parts = width, 1, list(parts)
        for name, shape in {"mean": (channels,), "matrix": (width, channels), "background": (width,)}.items():
            self.register_buffer(name, torch.zeros(shape))

    @property
    def invertible(self) -> bool:
        """Whether features tell what they were made of, up to its length."""
        return self.parts == [self.out_channels]

    def unit(self, x: Tensor) -> Tensor:
        """[B, C, h, w], each part of length 1 at every cell."""
        return torch.cat([F.normalize(part, dim=1) for part in x.split(self.parts, 1)], 1)

    def forward(self, x: Tensor) -> Tensor:
        return F.conv2d(self.unit(x) - self.mean[:, None, None], self.matrix[..., None, None])

    def fit(self, found: Moments) -> Tensor:
        """Set everything from the moments of unit features; returns the classes' means [classes, width].

        Σ is the mean of the classes' covariances, each counting alike. The directions that are kept are those along
        which the features then vary most, within and between classes.
        """
        seen = (found.count > 1).nonzero()[:, 0].tolist()
        if 0 not in seen or len(seen) < 2:
            raise ValueError("a discriminant needs cells of the background and of at least one class: too few images?")
        means = found.total[seen] / found.count[seen, None]
        within = torch.zeros_like(found.square[0])
        for label, mean in zip(seen, means, strict=True):
            within += (found.square[label] / found.count[label] - torch.outer(mean, mean)) / len(seen)
        if not within.diagonal().mean() > 1e-12:
            raise ValueError(
                "a discriminant needs features that vary within a class, and these do not (or are no numbers)"
            )
        centre = means.mean(0)
        between = (means - centre).T @ (means - centre) / len(seen)
        variances, directions = torch.linalg.eigh(within)
        scaled = directions * (variances.clamp_min(0) + SHRINKAGE * variances.mean()).rsqrt()
        _, turned = torch.linalg.eigh(scaled.T @ (within + between) @ scaled)
        matrix = (scaled @ turned.flip(1)[:, : self.out_channels]).T
        matrix *= matrix.gather(1, matrix.abs().argmax(1, keepdim=True)).sign()  # else each row's is arbitrary
        placed = torch.zeros(len(found.count), self.out_channels)
        placed[seen] = ((means - centre) @ matrix.T).float()
        self.mean.copy_(centre)
        self.matrix.copy_(matrix)
        self.background.copy_(placed[0])
        return placed
