"""From the features of annotated pictures and of others to probabilities: one class, or several that compete."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
import torch.nn.functional as F
from torch import Tensor

from repri.data.io.masks import IGNORE
from repri.inference import InferenceConfig, infer, infer_joint

from .inputs import Shares
from .support import Support, presence_of

__all__ = ["Classifier"]

WHITE = 2.0
"""Length of whitened features beside plain ones of length 1, where several classes are told apart."""


@dataclass(frozen=True, eq=False)
class Classifier:
    """Fits anew to each group of pictures."""

    support: Support
    classes: int
    """N."""
    config: InferenceConfig
    background: Tensor | None
    """[C] what the extractor knows of backgrounds, for configurations that start from it."""
    joint: bool
    """Several classes compete in one classifier; else each is fitted on its own."""

    @cached_property
    def known(self) -> InferenceConfig:
        """Where the share of an object is given: the oracle's settings."""
        return self.config.replace(lambda_kl=1.0, lambda_h=0.1, lr=0.025, t_pi=None, steps=300)

    @cached_property
    def _joined(self) -> Tensor:
        return self._join(self.support.features, self.support.white)

    def _join(self, features: Tensor, white: Tensor) -> Tensor:
        """[…, C, h, w] and […, r, h, w]: kinds of objects are told apart by whitened features, objects from the rest by
        plain ones. A discriminant's do both."""
        return features if self.background is not None else torch.cat([F.normalize(features, dim=1), WHITE * white], 1)

    def maps(self, features: Tensor, white: Tensor, valid: Tensor, shares: Shares) -> tuple[Tensor, Tensor, Tensor]:
        """T queries [T, C, h, w], whitened [T, r, h, w], where ``valid`` [T, h, w] → probabilities [T, N, h, w], shares
        and presence [T, N]."""
        if self.classes > 1 and self.joint:
            probability, proportion = self._together(features, white, valid, shares.point)
        else:
            found = [self._one(features, valid, n, shares) for n in range(1, self.classes + 1)]
            probability, proportion = (torch.stack(values, 1) for values in zip(*found, strict=True))
        presence = torch.stack([presence_of(*query, self.support) for query in zip(white, valid, strict=True)])
        return probability, proportion, presence

    def one_map(
        self, probability: Tensor, proportion: Tensor, presence: Tensor, shares: Shares
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The same of one picture [N, H, W], [N], [N], where several classes share it: those that are rather not there
        leave their pixels to the others, unless their size was given; the likeliest stays."""
        if self.classes == 1:
            return probability, proportion, presence
        there = (presence >= 0.5) | (presence == presence.max()) | (shares.point is not None)
        absent = probability[~there].sum(0)
        probability = probability * there[:, None, None]
        # In one classifier all claims sum to 1; each on its own, they may claim more than all.
        left = (1 - absent).clamp_min(1e-6) if self.joint else probability.sum(0).clamp_min(1)
        return probability / left, proportion * there, presence

    def _together(
        self, features: Tensor, white: Tensor, valid: Tensor, point: list[float] | None
    ) -> tuple[Tensor, Tensor]:
        config = self.config if point is None else self.known
        shots, queries = (self._joined, self.support.labels), self._join(features, white)
        out = infer_joint(*shots, queries, self.classes, config, valid, point, self.background)
        return out.probability[:, 1:], out.proportion[:, 1:]

    def _one(self, features: Tensor, valid: Tensor, n: int, shares: Shares) -> tuple[Tensor, Tensor]:
        """[T, h, w] and [T] of one class against all else."""
        labels = self.support.labels
        if self.classes > 1:
            labels = torch.where(labels == IGNORE, labels, (labels == n).to(labels.dtype))
        masks = labels[None].expand(len(features), -1, -1, -1)
        rows = self.support.features[None].expand(len(features), -1, -1, -1, -1)
        if shares.point is not None:
            point = shares.point[n - 1]
            out = infer(rows, masks, features, self.known, valid, point, background=self.background)
            return out.probability, out.proportion
        out = infer(rows, masks, features, self.config, valid, background=self.background)
        if shares.limits is None:
            return out.probability, out.proportion
        bounded = out.proportion.clamp(*shares.limits)
        outside = bounded != out.proportion
        if outside.any():
            again = infer(
                *(rows[outside], masks[outside], features[outside], self.known, valid[outside], bounded[outside]),
                background=self.background,
            )
            out.probability[outside] = again.probability
        return out.probability, bounded
