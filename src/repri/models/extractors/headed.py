"""A feature extractor with a head on top."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
import torch.nn as nn
from torch import Tensor

from repri.features.extractor import FeatureExtractor, fingerprint_of
from repri.features.whitening import Whitening
from repri.models.heads.discriminant import Discriminant
from repri.runtime.errors import RepriError

__all__ = ["HeadedExtractor"]


class HeadedExtractor(FeatureExtractor):
    """Another extractor with a head.

    Args:
        under: The extractor whose features the head gets.
        head: A module with ``out_channels``, and with ``upsample`` if it refines the grid.
        size: Long side of the images with which the head was trained; None takes that of ``under``.
        rounds: Whether the head gets features in half precision, as in training, so that stored ones serve as well.
        name: Name in messages and results; None adds "with a head" to that of ``under``.
        seen: Classes whose labels ``under`` and the head were trained with; None takes those of ``under``.
    """

    def __init__(
        self,
        under: FeatureExtractor,
        head: nn.Module,
        size: int | None = None,
        rounds: bool = False,
        name: str | None = None,
        seen: Sequence[str] | None = None,
    ):
        if not isinstance(getattr(head, "out_channels", None), int):
            raise RepriError(f"The head on {under.name} must tell the number of its channels, as out_channels.")
        self.under, self.name = under, name or f"{under.name} with a head"
        self.rule = under.rule if size is None else under.rule._replace(size=size)
        self.channels = int(head.out_channels)  # ty: ignore[invalid-argument-type]
        self.upsample = int(getattr(head, "upsample", 1))
        self.stride, self.on_pixels = under.stride // self.upsample, under.on_pixels and self.upsample == 1
        self.device = torch.device(getattr(under, "device", "cpu"))
        self.head = copy.deepcopy(head).eval().requires_grad_(False).to(self.device)
        self.rounds = rounds
        self.seen = under.seen if seen is None else tuple(seen)
        self.networks = under.networks
        if isinstance(head, Discriminant) and head.background.any():
            self.background = head.background.cpu()
            if isinstance(under.whitening, Whitening):
                self.whitening = under.whitening.through(head.matrix.cpu(), head.mean.cpu())
        facts, tensors = [repr(head), *(["half"] if rounds else [])], list(head.state_dict().items())
        self._fingerprint = fingerprint_of([under.fingerprint, *facts], tensors)
        self._identity = fingerprint_of([under.identity, *facts], tensors)

    def cells(self, pixels: tuple[int, int]) -> tuple[int, int]:
        """Rows and columns of cells for an input of some height and width: those of ``under``, refined by the head."""
        rows, columns = self.under.cells(pixels)
        return rows * self.upsample, columns * self.upsample

    def _forward(self, images: Tensor) -> Tensor:
        return self._finish(self.under._forward(images))

    def finish(self, features: Tensor) -> Tensor:
        """Compute this extractor's features from those of ``under`` [B, C, h, w], equal to those from the images."""
        with torch.inference_mode():
            return self._finish(features.to(self.device)).clone()

    def _finish(self, features: Tensor) -> Tensor:
        return self.head(features.half().float() if self.rounds else features)

    @property
    def fingerprint(self) -> str:
        """Hash of the fingerprint of ``under`` and of the head."""
        return self._fingerprint

    @property
    def identity(self) -> str:
        """Hash of the identity of ``under`` and of the head."""
        return self._identity
