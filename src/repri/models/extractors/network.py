"""A network that names its layers, as a feature extractor."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

from repri.features.extractor import IMAGENET, FeatureExtractor, InputRule, fingerprint_of
from repri.features.whitening import Whitening
from repri.runtime.errors import RepriError

__all__ = ["NetworkExtractor"]


class NetworkExtractor(FeatureExtractor):
    """Some layers of a network.

    Args:
        name: Name in messages and results.
        network: Images → ``{layer: [B, C, h, w]}``, with ``channels`` and ``strides`` by layer. If its features depend
            on more than its modules and weights, its ``description`` tells it.
        layers: Layers to take; several are brought to the grid of the last one.
        rule: What the network wants of its images.
        combine: ``"concat"`` joins several layers along the channels, ``"mean"`` averages layers of equal width.
        device: Where the network runs.
        faster: Makes an equivalent of the network that is executed in its place; None executes the network itself.
        seen: Classes whose labels the network was trained with.
    """

    def __init__(
        self,
        name: str,
        network: nn.Module,
        layers: Sequence[str],
        rule: InputRule = IMAGENET,
        combine: Literal["concat", "mean"] = "concat",
        device: str | torch.device = "cpu",
        faster: Callable[[Any], Any] | None = None,
        seen: Sequence[str] = (),
    ):
        known, strides = _levels(network)
        self.name, self.layers, self.combine, self.rule = name, tuple(layers), combine, rule
        self.seen = tuple(seen)
        widths = self._check(known)
        self.device = _usable_device(device)
        self.network = network.eval().requires_grad_(False).to(self.device)
        self.run, self._faster = self.network if faster is None else faster(self.network), faster
        self.networks = int(getattr(network, "networks", 1))
        self.stride, self.on_pixels = strides[self.layers[-1]], bool(getattr(network, "on_pixels", False))
        self.channels = sum(widths) if combine == "concat" else widths[0]
        self._widths = tuple(widths) if combine == "concat" else (self.channels,)
        # The name is no part of the identity: the same model from two places has the same features.
        description = getattr(network, "description", None)
        facts = [repr(self.network), description, self.layers, self.combine, self.rule]
        self._identity = fingerprint_of(facts, self.network.state_dict().items())

    def _check(self, known: dict[str, int]) -> list[int]:
        """Channels of the chosen layers, if the network has them and they can be combined."""
        if not self.layers or any(layer not in known for layer in self.layers):
            raise RepriError(f"{self.name} has no layers {list(self.layers)}. Known: {', '.join(known)}.")
        if self.combine not in ("concat", "mean"):
            raise RepriError(f"combine must be 'concat' or 'mean', got {self.combine!r}.")
        widths = [known[layer] for layer in self.layers]
        if self.combine == "mean" and len(set(widths)) > 1:
            raise RepriError(f"{self.name}: layers of {widths} channels cannot be averaged: use combine='concat'.")
        return widths

    def known_as(self, name: str, whitening: Whitening | None) -> NetworkExtractor:
        """The same extractor under another name and with a whitening; the network is shared."""
        twin = copy.copy(self)
        twin.name, twin.whitening = name, whitening
        return twin

    def coarse(self, times: int) -> FeatureExtractor:
        """An extractor of every ``times``-th cell, if the network has a cheaper equivalent for that; else this one."""
        make = getattr(self.network, "coarser", None)
        network = None if make is None or len(self.layers) > 1 or times == 1 else make(times, self.layers[0])
        if network is None:
            return self
        return NetworkExtractor(
            self.name, network, self.layers, self.rule, self.combine, self.device, self._faster, self.seen
        )

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
        """Channels of each layer; their sum is C."""
        return self._widths

    @property
    def identity(self) -> str:
        """Hash of architecture, options and weights, the same on every device."""
        return self._identity

    @property
    def fingerprint(self) -> str:
        """Hash of identity and arithmetic, which differs between devices."""
        precision = "autocast" if self.device.type == "cuda" else "float32"
        return fingerprint_of([self._identity, precision], ())


def _usable_device(device: str | torch.device) -> torch.device:
    """The device, if this machine has it."""
    try:
        usable = torch.device(device)
        torch.empty(1, device=usable)
    except (RuntimeError, AssertionError) as error:
        raise RepriError(f"The device {str(device)!r} cannot be used: {str(error).splitlines()[0]}") from None
    return usable


def _levels(network: Any) -> tuple[dict[str, int], dict[str, int]]:
    """Channels and stride of each layer of a network."""
    return network.channels, network.strides
