"""RePRI and its ablations [Boudiaf et al., CVPR 2021] (§3.3): one call of :func:`repri.inference.infer`."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from repri.inference import InferenceConfig, infer, perturbed
from repri.inference.labels import on_one_grid
from repri.runtime.errors import RepriError

from .base import Episode, Method, Prediction

__all__ = ["RePRI"]


class RePRI(Method):
    """The transductive classifier.

    Args:
        name: Name in results.
        config: Settings of the inference: terms, steps, …
        delta: Relative error of the proportion that an oracle is told (§4.3).
    """

    def __init__(self, name: str, config: InferenceConfig, delta: float = 0.0):
        if delta and not config.needs_proportion:
            raise RepriError(f"delta perturbs the proportion that an oracle is told, and {name} is told none.")
        self.name, self.config, self.delta = name, config, delta
        self.oracle = config.needs_proportion

    def predict(self, episode: Episode) -> Prediction:
        return self.predict_many([episode])[0]

    def predict_many(self, episodes: Sequence[Episode]) -> list[Prediction]:
        """All episodes must share their support, whose pass is then shared too. An episode with a known proportion is
        solved with the oracle's settings."""
        first = episodes[0]
        told = [self._told(episode) for episode in episodes]
        if any(pi is not None for pi in told) != all(pi is not None for pi in told):
            raise ValueError("either all episodes of a batch have a known proportion, or none")
        sizes = [(e.query.shape[-2], e.query.shape[-1]) for e in episodes]
        valid = [
            torch.ones(size, dtype=torch.bool) if e.query_valid is None else e.query_valid
            for e, size in zip(episodes, sizes, strict=True)
        ]
        known = None if told[0] is None else torch.stack([pi for pi in told if pi is not None])
        config = self.config if known is None or self.config.needs_proportion else self.config.oracle()
        support, labels = first.support.stacked
        queries, cells = on_one_grid([e.query for e in episodes]), on_one_grid(valid, False)
        sets = (support[None].expand(len(episodes), *support.shape), labels[None].expand(len(episodes), *labels.shape))
        out = infer(*sets, queries, config, cells, known, background=first.background)
        start = _mean_over(out.initial_probability, cells) if known is None else known
        return [
            Prediction(logits[:h, :w], float(pi), float(pi_0))
            for logits, pi, pi_0, (h, w) in zip(out.query_logits, out.proportion, start, sizes, strict=True)
        ]

    def _told(self, episode: Episode) -> Tensor | None:
        return None if episode.proportion is None else perturbed(episode.proportion, self.delta)

    def settings(self) -> dict[str, Any]:
        return dataclasses.asdict(self.config) | {"delta": self.delta}


def _mean_over(probability: Tensor, valid: Tensor) -> Tensor:
    """[T] means of maps [T, h, w] over the cells that count."""
    return (probability * valid).sum((1, 2)) / valid.sum((1, 2))
