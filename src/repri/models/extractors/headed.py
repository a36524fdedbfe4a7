"""A feature extractor with a head on top."""

from __future__ import annotations

import copy

import torch
import torch.nn as nn
from torch import Tensor

from repri.features.extractor import FeatureExtractor, fingerprint_of
from repri.features.whitening import Whitening
from repri.models.heads.discriminant import Discriminant

__all__ = ["HeadedExtractor"]


class HeadedExtractor(FeatureExtractor):
    """Another extractor with a module on top, which must have ``out_channels`` (and ``upsample``, if it does).

    ``rounds``: the head gets features in half precision, as it did in training, so that stored ones are as good.
    """

    def __init__(self, under: FeatureExtractor, head: nn.Module, size: int | None = None, rounds: bool = False):
        if not isinstance(getattr(head, "out_channels", None), int):
            raise ValueError(f"{under.name}: a head must say how many channels it gives, as out_channels")
        self.under, self.name, self.rule = under, f"{under.name} with a head", under.rule
        if size is not None:
            self.rule = under.rule._replace(size=size)  # at which the head was trained
        self.channels = int(head.out_channels)  # ty: ignore[invalid-argument-type]
        upsample = int(getattr(head, "upsample", 1))
        self.stride, self.strided = under.stride // upsample, under.strided and upsample == 1
        self.device = torch.device(getattr(under, "device", "cpu"))
        self.head = copy.deepcopy(head).eval().requires_grad_(False).to(self.device)
        self.rounds = rounds
        self.seen = under.seen
        if isinstance(head, Discriminant):
            fitted = bool(head.background.any())
            self.background = head.background.cpu() if fitted else None
            if isinstance(under.whitening, Whitening) and fitted and head.invertible:
                self.whitening = under.whitening.through(head.matrix.cpu(), head.mean.cpu())
        facts, tensors = [repr(head), *(["half"] if rounds else [])], list(head.state_dict().items())
        self._fingerprint = fingerprint_of([under.fingerprint, *facts], tensors)
        self._identity = fingerprint_of([under.identity, *facts], tensors)

    def _forward(self, images: Tensor) -> Tensor:
        return self._finish(self.under._forward(images))

    def finish(self, features: Tensor) -> Tensor:
        """Features [B, C, h, w] of ``under`` → this one's, the same as from the pictures."""
        with torch.inference_mode():
            return self._finish(features.to(self.device)).clone()

    def _finish(self, features: Tensor) -> Tensor:
        return self.head(features.half().float() if self.rounds else features)

    @property
    def fingerprint(self) -> str:
        return self._fingerprint

    @property
    def identity(self) -> str:
        return self._identity
