"""The plainest method: is a pixel nearer to the mean of the foreground or to that of the background?"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from repri.inference.problem import IGNORE, stack_shots

from .base import Episode, Prediction

__all__ = ["Prototype"]


class Prototype:
    """logit = τ·[cos(z, f) − cos(z, g)], f and g the mean unit features of the support's foreground and background."""

    name = "prototype"
    oracle = False

    def __init__(self, temperature: float = 20.0):
        self.temperature = temperature

    def predict(self, episode: Episode) -> Prediction:
        support, labels = stack_shots(episode.support, episode.masks)
        labelled = (labels != IGNORE).float()
        foreground = torch.where(labels == IGNORE, 0.0, labels)
        weights = torch.stack([foreground, labelled - foreground], 1).flatten(2)  # [K, 2, h·w]
        centres = torch.stack(list(map(_weighted_sum, support, weights))).sum(0)
        cosines = torch.einsum("nc,chw->nhw", F.normalize(centres, dim=1), F.normalize(episode.query.float(), dim=0))
        return Prediction(self.temperature * (cosines[0] - cosines[1]))

    def settings(self) -> dict[str, Any]:
        return {"temperature": self.temperature}


def _weighted_sum(cells: Tensor, weights: Tensor) -> Tensor:
    """[n, C] Σ weight·z/‖z‖ of cells [C, h, w] under weights [n, h·w]."""
    flat = cells.float().flatten(1)
    norm = torch.linalg.vector_norm(flat, dim=0).clamp_min(1e-12)
    return (weights / norm) @ flat.T
