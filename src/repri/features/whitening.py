"""Features in which all directions vary alike, so that what an object is counts more than that it is one.

Few directions hold nearly all the variance of a network's features: object or not, where in the picture. They serve
to find an object's outline and drown what tells one kind of object from another. Divided by how much each direction
varies over many pictures, cosines compare kinds.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = ["RANK", "MappedWhitening", "Whitening", "whitening_of"]

RANK, SHRINKAGE = 64, 0.1


class Whitening(NamedTuple):
    mean: Tensor
    """[C] of unit features."""
    basis: Tensor
    """[C, r]: principal directions, each over the standard deviation along it."""

    def __call__(self, features: Tensor) -> Tensor:
        """Features [C, …] → [r, …], of length 1 at each place."""
        unit = F.normalize(features.float().flatten(1), dim=0)
        white = F.normalize(self.basis.T @ (unit - self.mean[:, None]), dim=0)
        return white.reshape(-1, *features.shape[1:])

    def through(self, matrix: Tensor, mean: Tensor) -> MappedWhitening:
        """The same for z = A·(x̂ − μ), with A [C, C] and μ [C]: what was whitened is x̂ = A⁻¹·z + μ."""
        back = torch.linalg.solve(matrix.double(), self.basis.T.double(), left=False)  # Bᵀ·A⁻¹
        return MappedWhitening(back.float(), self.basis.T @ (mean - self.mean))


class MappedWhitening(NamedTuple):
    """Of features that a linear map made of others."""

    matrix: Tensor
    """[r, C]."""
    offset: Tensor
    """[r]."""

    def __call__(self, features: Tensor) -> Tensor:
        """Features [C, …] → [r, …], of length 1 at each place."""
        white = F.normalize(self.matrix @ features.float().flatten(1) + self.offset[:, None], dim=0)
        return white.reshape(-1, *features.shape[1:])


def whitening_of(rows: Tensor, rank: int = RANK) -> Whitening:
    """From unit features [M, C] of many places. Directions that hardly vary are held back: a tenth of the mean variance
    is added to each."""
    mean = rows.mean(0)
    centred = (rows - mean).double()
    variances, directions = torch.linalg.eigh(centred.T @ centred / len(rows))
    variances, directions = variances.flip(0)[:rank].clamp_min(0), directions.flip(1)[:, :rank]
    floor = SHRINKAGE * centred.square().mean().clamp_min(1e-12)
    return Whitening(mean, (directions * (variances + floor).rsqrt()).float())
