"""PMM [Yang et al., "Prototype Mixture Models for Few-shot Semantic Segmentation", ECCV 2020], the part that trains
nothing: expectation maximisation of prototypes, and their direct match with the query (P-Match).

Where the authors' code and this file differ: they draw new random starts in every pass, and here they are seeded; their
features are the output of a trained layer that is not normalised, and here they are made unit by default, with the
factor of the mixture in the match too. ``unit=False, match=1`` is the authors' arithmetic.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from repri.inference.labels import on_one_grid
from repri.runtime.errors import RepriError

from .base import Episode, Method, Prediction
from .learned import Positions, channels_of, pick_layers
from .registry import number, positions, whole_number

__all__ = ["KAPPA", "PMM", "match", "mixture", "sides_of"]

KAPPA = 20.0
"""Concentration of the mixtures."""
TINY = 1e-6


class PMM(Method):
    """logit = log Σᵢ exp(τ z·μᵢ) − log Σᵢ exp(τ z·νᵢ), with mixtures μ of the object and ν of the background.

    Args:
        parts: Number of prototypes of each side.
        rounds: Rounds of the expectation maximisation.
        kappa: Concentration of the mixtures.
        match: τ.
        unit: Whether features are made unit.
        seed: Seed of the starts.
        mid: Positions of the layers that are used; default: all.
    """

    name, needs_masks = "pmm", True

    def __init__(
        self,
        parts: int = 3,
        rounds: int = 10,
        kappa: float = KAPPA,
        match: float = KAPPA,
        unit: bool = True,
        seed: int = 0,
        mid: Positions = None,
    ):
        self.parts, self.rounds = whole_number("parts", parts), whole_number("rounds", rounds)
        self.kappa, self.match = number("kappa", kappa, above=0.0), number("match", match, above=0.0)
        self.unit, self.seed, self.mid = unit, seed, positions("mid", mid)

    def predict(self, episode: Episode) -> Prediction:
        chosen = pick_layers(episode.widths or (episode.query.shape[0],), self.mid, self.name)
        support, query = on_one_grid(episode.support.features).float(), episode.query.float()
        support, query = channels_of(support, chosen), channels_of(query, chosen)
        if self.unit:
            support, query = F.normalize(support, dim=1), F.normalize(query, dim=0)
        weights = episode.support.weights("bilinear")
        if not weights[:, 1].any():
            raise RepriError("The support labels hold no foreground: mark the object in at least one image.")
        prototypes = [
            mixture(cells, self.parts, self.seed, self.rounds, self.kappa) for cells in sides_of(support, weights)
        ]
        return Prediction(match(query, prototypes, self.match))

    def settings(self) -> dict[str, Any]:
        names = ("parts", "rounds", "kappa", "match", "unit", "seed", "mid")
        return {name: getattr(self, name) for name in names}


def sides_of(support: Tensor, weights: Tensor) -> list[Tensor]:
    """Cells [N, C] of background and object: features [K, C, h, w] times weights [K, 2, h, w], without those of weight
    0, which would not change a mixture."""
    cells, flat = support.movedim(1, 3).flatten(0, 2), weights.movedim(1, 0).flatten(1)
    return [cells[side > 0] * side[side > 0, None] for side in flat]


def mixture(cells: Tensor, parts: int, seed: int, rounds: int = 10, kappa: float = KAPPA) -> Tensor:
    """Prototypes of cells, by expectation maximisation of a mixture with kernels exp(κ x·μ).

    Args:
        cells: [N, C].
        parts: Number k of prototypes.
        seed: Seed of the random starts.
        rounds: Number of rounds.
        kappa: κ.

    Returns:
        [k, C] unit prototypes. Σₙ log Σₖ exp(κ xₙ·μₖ) never falls from one round to the next.

    Example:
        >>> mixture(torch.tensor([[3.0, 0.0], [0.0, 3.0]]), 1, seed=0).round(decimals=4)
        tensor([[0.7071, 0.7071]])
    """
    draw = torch.Generator().manual_seed(seed)
    means = torch.randn(parts, cells.shape[1], generator=draw).to(cells)
    means = means / (TINY + means.norm(dim=1, keepdim=True))
    for _ in range(rounds if len(cells) else 0):
        means = _round(cells, means, kappa)
    return means


def _round(cells: Tensor, means: Tensor, kappa: float) -> Tensor:
    """One expectation and one maximisation."""
    chances = (kappa * cells @ means.T).softmax(1)  # [N, k]
    means = chances.T @ cells / (TINY + chances.sum(0)[:, None])
    return means / (TINY + means.norm(dim=1, keepdim=True))


def match(query: Tensor, prototypes: Sequence[Tensor], scale: float = 1.0) -> Tensor:
    """[h, w] log-odds of the object, of a query [C, h, w] and prototypes [k, C] of background and object: one softmax
    over all prototypes, summed for each side."""
    background, foreground = ((scale * torch.einsum("kc,chw->khw", side, query)).logsumexp(0) for side in prototypes)
    return foreground - background
