"""Layers of a network by name: the common base of our backbones, and the choice of layers."""

from __future__ import annotations

from collections.abc import Sequence

import torch.nn as nn
from torch import Tensor

from repri.runtime.errors import RepriError

__all__ = ["Layered", "pick_layers"]


class Layered(nn.Module):
    """A backbone of five parts: images [B, 3, H, W] → ``{"layer1": [B, C₁, h₁, w₁], …, "layer4": …}``.

    The modules ``layer0`` … ``layer4`` run one after the other; ``layer0`` is the stem, whose output is not given.
    """

    channels: dict[str, int]
    """Layer → number of its channels."""
    strides: dict[str, int]
    """Layer → pixels per cell."""
    last: str = "layer4"
    """Last layer that is computed."""

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        x, outputs = self.get_submodule("layer0")(x), {}
        for name in self.channels:
            outputs[name] = x = self.get_submodule(name)(x)
            if name == self.last:
                break
        return outputs


def pick_layers(layers: Sequence[str | int] | None, known: Sequence[str], source: str) -> tuple[str, ...]:
    """Translate layers that a user chose into names.

    Args:
        layers: Names, or indices that may count from the end; None takes the last layer.
        known: Names of all layers, in the order of the network.
        source: Name of the network, for messages.

    Returns:
        The names in the order of the network, each once.

    Example:
        >>> pick_layers([-1, "layer2"], ["layer1", "layer2", "layer3"], "resnet50")
        ('layer2', 'layer3')
    """
    if layers is None:
        return (known[-1],)
    if isinstance(layers, (str, int)) or not layers:
        raise RepriError(f"layers must be a list of names or numbers, such as ({known[-1]!r},), got {layers!r}.")
    picked = []
    for layer in layers:
        try:
            picked.append(known[layer] if isinstance(layer, int) else known[known.index(layer)])
        except (IndexError, ValueError):
            raise RepriError(f"{source} has no layer {layer!r}. Known: {', '.join(known)}.") from None
    return tuple(sorted(set(picked), key=known.index))
