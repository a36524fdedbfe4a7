"""The one interface between features and everything that uses them."""

from __future__ import annotations

import copy
import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

from .discriminant import Discriminant
from .whitening import MappedWhitening, Whitening

__all__ = ["IMAGENET", "FeatureExtractor", "HeadedExtractor", "InputRule", "NetworkExtractor", "fingerprint_of"]


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


class NetworkExtractor(FeatureExtractor):
    """A network that names its layers, and those of them that are taken.

    ``network``   images → ``{layer: [B, C, h, w]}``, with ``channels`` and ``strides`` by layer
    ``layers``    which to take; several are brought to the grid of the last
    ``combine``   ``"concat"`` along channels, or ``"mean"`` of layers of equal width
    ``description``  what the fingerprint must know of the network beyond its modules and weights
    """

    def __init__(
        self,
        name: str,
        network: nn.Module,
        layers: Sequence[str],
        rule: InputRule = IMAGENET,
        combine: Literal["concat", "mean"] = "concat",
        device: str | torch.device = "cpu",
        description: object = None,
    ):
        known, strides = _levels(network)
        layers = tuple(layers)
        if not layers or any(layer not in known for layer in layers):
            raise ValueError(f"{name}: unknown layer in {list(layers)}; known: {', '.join(known)}")
        if combine not in ("concat", "mean"):
            raise ValueError(f"combine must be 'concat' or 'mean', got {combine!r}")
        widths = [known[layer] for layer in layers]
        if combine == "mean" and len(set(widths)) > 1:
            raise ValueError(f"{name}: layers of {widths} channels cannot be averaged: use combine='concat'")
        self.name, self.layers, self.combine, self.rule = name, layers, combine, rule
        try:
            self.device = torch.device(device)
            torch.empty(1, device=self.device)
        except (RuntimeError, AssertionError) as error:
            raise ValueError(f"device {str(device)!r} cannot be used: {str(error).splitlines()[0]}") from None
        self.network = network.eval().requires_grad_(False).to(self.device)
        self.stride, self.strided = strides[layers[-1]], bool(getattr(network, "strided", False))
        self.channels = sum(widths) if combine == "concat" else widths[0]
        self._widths = tuple(widths) if combine == "concat" else (self.channels,)
        self.run = self.network  # what is executed: may be replaced by a faster equivalent
        # Not of the name: the same model from two places has the same features.
        facts = [repr(self.network), description, self.layers, self.combine, self.rule]
        self._description = description
        self._identity = fingerprint_of(facts, self.network.state_dict().items())

    def coarse(self, times: int) -> FeatureExtractor:
        makers = [getattr(net, "coarser", None) for net in (self.network, self.run)]
        if len(self.layers) > 1 or times == 1 or None in makers:
            return self
        network, run = (make and make(times, self.layers[0]) for make in makers)
        if network is None or run is None:
            return self
        options = (self.rule, self.combine, self.device, self._description)
        extractor = NetworkExtractor(self.name, network, self.layers, *options)
        extractor.run, extractor.seen = run, self.seen
        return extractor

    def _forward(self, images: Tensor) -> Tensor:
        with torch.autocast(self.device.type, enabled=self.device.type == "cuda"):
            outputs = self.run(images.to(self.device))
        maps = [outputs[layer].float() for layer in self.layers]
        size = maps[-1].shape[-2:]
        maps = [
            m if m.shape[-2:] == size else F.interpolate(m, size=size, mode="bilinear", align_corners=False)
            for m in maps
        ]
        return torch.cat(maps, 1) if self.combine == "concat" else torch.stack(maps).mean(0)

    @property
    def widths(self) -> tuple[int, ...]:
        return self._widths

    @property
    def identity(self) -> str:
        return self._identity

    @property
    def fingerprint(self) -> str:
        precision = "autocast" if self.device.type == "cuda" else "float32"
        return fingerprint_of([self._identity, precision], ())


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


def _levels(network: Any) -> tuple[dict[str, int], dict[str, int]]:
    """Channels and stride of each layer of a network."""
    return network.channels, network.strides


def fingerprint_of(description: Sequence[object], tensors: Iterable[tuple[str, Tensor]]) -> str:
    """sha256 over a description and named tensors."""
    digest = hashlib.sha256(repr(tuple(description)).encode())
    for name, tensor in tensors:
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
    return digest.hexdigest()
