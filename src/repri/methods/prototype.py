"""The plainest method: is a pixel nearer to the mean of the foreground or to that of the background?"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from repri.inference.task import stack_shots

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
        rows = F.normalize(support.float(), dim=1).movedim(1, -1)  # [K, h, w, C]
        labelled = (labels != 255).float()
        foreground = torch.where(labels == 255, 0.0, labels)
        centres = torch.stack(
            [(rows * weight[..., None]).sum((0, 1, 2)) for weight in (foreground, labelled - foreground)]
        )
        cosines = torch.einsum("nc,chw->nhw", F.normalize(centres, dim=1), F.normalize(episode.query.float(), dim=0))
        return Prediction(self.temperature * (cosines[0] - cosines[1]))

    def settings(self) -> dict[str, Any]:
        return {"temperature": self.temperature}
