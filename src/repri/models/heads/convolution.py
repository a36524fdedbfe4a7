"""A convolutional head, with or without pyramid pooling."""

from __future__ import annotations

from typing import Literal

import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

from repri.models.networks.pspnet import PyramidPooling
from repri.runtime.errors import RepriError

__all__ = ["Head"]


class Head(nn.Module):
    """[B, C, h, w] → [B, width, u·h, u·w]: pyramid pooling if ``kind`` is ``"psp"``, then a convolution.

    Args:
        channels: C, the channels of the frozen features.
        kind: ``"conv"`` or ``"psp"``.
        width: Channels of the output.
        kernel: Side of the convolution, odd.
        upsample: u. A first 1×1 convolution is interpolated to a finer grid, so that the convolution that follows can
            draw finer borders.
        dropout: Probability with which training drops a channel of the output.
    """

    def __init__(
        self,
        channels: int,
        kind: Literal["conv", "psp"] = "conv",
        width: int = 512,
        kernel: int = 3,
        upsample: int = 1,
        dropout: float = 0.1,
    ):
        super().__init__()
        if kind not in ("conv", "psp"):
            raise RepriError(f"The kind of a head is 'conv' or 'psp', got {kind!r}.")
        if kernel % 2 == 0 or min(kernel, width, upsample) < 1:
            raise RepriError(
                "A head needs an odd kernel, and a width and upsample of at least 1, got "
                f"kernel={kernel}, width={width}, upsample={upsample}."
            )
        self.options = {"channels": channels, "kind": kind, "width": width, "kernel": kernel, "upsample": upsample}
        self.out_channels, self.upsample = width, upsample
        self.ppm = PyramidPooling(channels) if kind == "psp" else None
        channels = 2 * channels if kind == "psp" else channels
        self.reduce = _convolution(channels, width, 1) if upsample > 1 else None
        self.bottleneck = _convolution(width if upsample > 1 else channels, width, kernel)
        self.dropout = nn.Dropout2d(dropout)

    def forward(self, x: Tensor) -> Tensor:
        x = x if self.ppm is None else self.ppm(x)
        if self.reduce is not None:
            x = F.interpolate(self.reduce(x), scale_factor=self.upsample, mode="bilinear", align_corners=False)
        return self.dropout(self.bottleneck(x))


def _convolution(channels: int, width: int, kernel: int) -> nn.Sequential:
    """A convolution with batch norm and ReLU."""
    return nn.Sequential(
        nn.Conv2d(channels, width, kernel, padding=kernel // 2, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU(inplace=True),
    )
