"""The one interface between features and everything that uses them."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from .whitening import MappedWhitening, Whitening

__all__ = ["IMAGENET", "FeatureExtractor", "InputRule", "fingerprint_of"]


class InputRule(NamedTuple):
    """What an extractor wants of its images."""

    size: int
    """Length of the longer side at which it works best."""
    multiple: int = 1
    """Both sides must be multiples of this."""
    mean: tuple[float, float, float] = (0.0, 0.0, 0.0)
    std: tuple[float, float, float] = (1.0, 1.0, 1.0)
    """Normalisation of RGB in [0, 1]; :meth:`FeatureExtractor.extract` does it."""


IMAGENET = InputRule(417, 1, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


class FeatureExtractor(ABC):
    """Images → dense features, frozen."""

    name: str
    channels: int
    """C."""
    stride: int
    """Pixels per feature cell."""
    strided = False
    """Whether cells lie on every ``stride``-th pixel, from the first on; else they tile the picture."""
    rule: InputRule
    whitening: Whitening | MappedWhitening | None = None
    """What is known of the spread of its features, if anything."""
    seen: tuple[str, ...] = ()
    """Classes whose labels it was trained with, as far as that is known: to it they are not new."""
    background: Tensor | None = None
    """[C] where backgrounds lie among its features, if that is known (``models.discriminant``)."""

    @property
    def widths(self) -> tuple[int, ...]:
        """Channels of each layer that it gives; their sum is C."""
        return (self.channels,)

    def extract(self, images: Tensor) -> Tensor:
        """RGB images [B, 3, H, W] in [0, 1] → features [B, C, h, w]."""
        if not isinstance(images, Tensor) or images.ndim != 4 or images.shape[1] != 3 or images.numel() == 0:
            found = list(images.shape) if isinstance(images, Tensor) else type(images).__name__
            raise ValueError(f"{self.name}: images must be a tensor [B, 3, H, W], got {found}")
        if not images.dtype.is_floating_point:
            raise ValueError(f"{self.name}: images must be float in [0, 1], got {images.dtype}: divide by 255")
        images = images.float()
        multiple = self.rule.multiple
        height, width = images.shape[-2:]
        if height % multiple or width % multiple:
            fit = "×".join(str(-(-side // multiple) * multiple) for side in (height, width))
            raise ValueError(
                f"{self.name}: sides must be multiples of {multiple}, got {height}×{width}: resize or pad to {fit}"
            )
        mean, std = (images.new_tensor(v).view(3, 1, 1) for v in (self.rule.mean, self.rule.std))
        with torch.inference_mode():
            features = self._forward((images - mean) / std)
        return features.clone()  # an ordinary tensor again

    @abstractmethod
    def _forward(self, images: Tensor) -> Tensor:
        """Normalised images → features, under inference mode."""

    def coarse(self, times: int) -> FeatureExtractor:
        """What gives every ``times``-th of these cells, in both directions from the first on, if that is less work than
        all of them; else this one."""
        return self

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """Hash of architecture, options, weights and arithmetic: what a cache of features depends on."""

    @property
    def identity(self) -> str:
        """The same on every device: what a head was trained on."""
        return self.fingerprint


def fingerprint_of(description: Sequence[object], tensors: Iterable[tuple[str, Tensor]]) -> str:
    """sha256 over a description and named tensors."""
    digest = hashlib.sha256(repr(tuple(description)).encode())
    for name, tensor in tensors:
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
    return digest.hexdigest()
