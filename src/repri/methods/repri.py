"""RePRI and its ablations (§3.3): one call of :func:`repri.inference.infer`."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

from repri.inference import InferenceConfig, infer, perturbed
from repri.inference.problem import resize_labels, stack_shots

from .base import Episode, Prediction

__all__ = ["RePRI"]


class RePRI:
    """``config``: which terms, how many steps; ``delta``: relative error of the oracle's proportion (§4.3)."""

    def __init__(self, name: str, config: InferenceConfig, delta: float = 0.0):
        if delta and not config.needs_proportion:
            raise ValueError(f"delta perturbs the proportion that an oracle is told, and {name} is told none")
        self.name, self.config, self.delta = name, config, delta
        self.oracle = config.needs_proportion

    def predict(self, episode: Episode) -> Prediction:
        support, labels = stack_shots(episode.support, episode.masks)
        valid = None if episode.query_valid is None else episode.query_valid[None]
        known = None if episode.proportion is None else perturbed(episode.proportion, self.delta)
        told = known if self.oracle else None
        out = infer(
            support[None], labels[None], episode.query[None], self.config, valid, told, background=episode.background
        )
        first = float(known) if self.oracle and known is not None else _share(out.initial_probability[0], valid)
        return Prediction(_logit(out.probability[0]), first, float(out.proportion[0]))

    def settings(self) -> dict[str, Any]:
        return dataclasses.asdict(self.config) | {"delta": self.delta}


def _logit(probability: torch.Tensor) -> torch.Tensor:
    return torch.logit(probability.double(), eps=1e-9).float()


def _share(probability: torch.Tensor, valid: torch.Tensor | None) -> float:
    """Mean over the pixels that count."""
    if valid is None:
        return float(probability.mean())
    weight, _ = resize_labels(valid.to(torch.uint8), (probability.shape[0], probability.shape[1]))
    return float((probability * weight[0]).sum() / weight.sum())
