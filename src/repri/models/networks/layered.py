"""What our backbones have in common: five parts, of which the last four are given by name."""

from __future__ import annotations

import torch.nn as nn
from torch import Tensor

__all__ = ["Layered"]


class Layered(nn.Module):
    """Images [B, 3, H, W] → ``{"layer1": …, "layer4": …}`` by the modules ``layer0`` … ``layer4`` in turn."""

    channels: dict[str, int]
    """Of each layer."""
    strides: dict[str, int]
    last: str = "layer4"
    """Layers beyond it are not computed."""

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        x, outputs = self.get_submodule("layer0")(x), {}
        for name in self.channels:
            outputs[name] = x = self.get_submodule(name)(x)
            if name == self.last:
                break
        return outputs
