"""A network that names its layers, as a feature extractor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

from repri.features.extractor import IMAGENET, FeatureExtractor, InputRule, fingerprint_of

__all__ = ["NetworkExtractor"]


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


def _levels(network: Any) -> tuple[dict[str, int], dict[str, int]]:
    """Channels and stride of each layer of a network."""
    return network.channels, network.strides
