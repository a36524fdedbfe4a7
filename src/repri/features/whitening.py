"""Features in which all directions vary alike, so that the kind of an object counts more than its being an object.

A few directions hold nearly all the variance of a network's features: object or background, place in the image. They
help to find an object's outline, and hide the directions that tell one kind of object from another. When each
direction is divided by its standard deviation over many images, cosines compare kinds."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = ["RANK", "MappedWhitening", "Whitening", "whitening_of"]

RANK = 64
"""Number of principal directions that are kept."""
SHRINKAGE = 0.1
"""Fraction of the mean variance that is added to each direction, so that directions that hardly vary are held back."""


class Whitening(NamedTuple):
    """The mean and spread of an extractor's features."""

    mean: Tensor
    """[c] mean of unit features."""
    basis: Tensor
    """[c, r] principal directions, each divided by the standard deviation along it."""
    first: int = 0
    """First of the c channels that it is about; an extractor of several layers may know one of them."""

    def __call__(self, features: Tensor) -> Tensor:
        """Features [C, …] → whitened features [r, …], of length 1 at each place."""
        return F.normalize(self.project(features), dim=0)

    def project(self, features: Tensor) -> Tensor:
        """Features [C, …] → basisᵀ·(x̂ − mean) [r, …], where x̂ are its c channels at length 1; the result keeps its own
        length."""
        mine = features[self.first : self.first + len(self.mean)]
        unit = F.normalize(mine.float().flatten(1), dim=0)
        return (self.basis.T @ (unit - self.mean[:, None])).reshape(-1, *features.shape[1:])

    def to(self, device: torch.device) -> Whitening:
        """The same on a device."""
        return self._replace(mean=self.mean.to(device), basis=self.basis.to(device))

    def seen_through(self, features: Tensor, mapped: Tensor) -> MappedWhitening:
        """The same whitening for features z that a map made from others, as far as a linear map of z gives it.

        Args:
            features: [C, M] features of many places.
            mapped: [w, M] z at these places.

        Returns:
            The map with the least squared error.
        """
        with_one = torch.cat([mapped.double(), torch.ones(1, mapped.shape[1], dtype=torch.float64)])
        solved = torch.linalg.lstsq(with_one.T, self.project(features).double().T).solution.T.float()
        return MappedWhitening(solved[:, :-1].contiguous(), solved[:, -1].contiguous())


class MappedWhitening(NamedTuple):
    """The whitening of features that a map made from others."""

    matrix: Tensor
    """[r, C]."""
    offset: Tensor
    """[r]."""

    def __call__(self, features: Tensor) -> Tensor:
        """Features [C, …] → whitened features [r, …], of length 1 at each place."""
        return F.normalize(self.project(features), dim=0)

    def project(self, features: Tensor) -> Tensor:
        """Features [C, …] → matrix·x + offset [r, …]; the result keeps its own length."""
        return (self.matrix @ features.float().flatten(1) + self.offset[:, None]).reshape(-1, *features.shape[1:])

    def to(self, device: torch.device) -> MappedWhitening:
        """The same on a device."""
        return MappedWhitening(self.matrix.to(device), self.offset.to(device))


def whitening_of(rows: Tensor, rank: int = RANK) -> Whitening:
    """The whitening of features.

    Args:
        rows: [M, C] unit features of many places.
        rank: Number of directions that are kept.

    Returns:
        The whitening.
    """
    mean = rows.mean(0)
    centred = (rows - mean).double()
    variances, directions = torch.linalg.eigh(centred.T @ centred / len(rows))
    variances, directions = variances.flip(0)[:rank].clamp_min(0), directions.flip(1)[:, :rank]
    floor = SHRINKAGE * centred.square().mean().clamp_min(1e-12)
    return Whitening(mean, (directions * (variances + floor).rsqrt()).float())
