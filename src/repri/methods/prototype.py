"""The plainest method: is a cell nearer to the mean of the foreground or to the mean of the background?"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from repri.inference.labels import IGNORE
from repri.runtime.errors import RepriError

from .base import Episode, Method, Prediction
from .registry import number

__all__ = ["Prototype"]


class Prototype(Method):
    """logit = τ·[cos(z, f) − cos(z, g)], with f and g the mean unit features of the support's foreground and
    background.

    Args:
        temperature: τ.
    """

    name = "prototype"

    def __init__(self, temperature: float = 20.0):
        self.temperature = number("temperature", temperature, above=0.0)

    def predict(self, episode: Episode) -> Prediction:
        support, labels = episode.support.stacked
        labelled = (labels != IGNORE).float()
        foreground = torch.where(labels == IGNORE, 0.0, labels)
        if not foreground.any():
            raise RepriError("The support labels hold no foreground: mark the object in at least one image.")
        weights = torch.stack([foreground, labelled - foreground], 1).flatten(2)  # [K, 2, h·w]
        centres = torch.stack(list(map(_weighted_sum, support, weights))).sum(0)
        cosines = torch.einsum("nc,chw->nhw", F.normalize(centres, dim=1), F.normalize(episode.query.float(), dim=0))
        return Prediction(self.temperature * (cosines[0] - cosines[1]))

    def settings(self) -> dict[str, Any]:
        return {"temperature": self.temperature}


def _weighted_sum(features: Tensor, weights: Tensor) -> Tensor:
    """[n, C] Σ weight·z/‖z‖ of features [C, h, w] under weights [n, h·w]."""
    flat = features.float().flatten(1)
    norm = torch.linalg.vector_norm(flat, dim=0).clamp_min(1e-12)
    return (weights / norm) @ flat.T
