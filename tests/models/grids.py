"""Networks whose features tell where their cells lie."""

import torch
import torch.nn as nn
import torch.nn.functional as F

from repri.models import InputRule
from repri.models.extractors.network import NetworkExtractor


class Patches(nn.Module):
    """Means of patches, as in a transformer, or pixels at equal distances, as in strided convolutions."""

    def __init__(self, stride: int, on_pixels: bool):
        super().__init__()
        self.channels, self.strides, self.on_pixels, self.stride = {"out": 3}, {"out": stride}, on_pixels, stride

    def forward(self, x):
        step = self.stride
        return {"out": x[..., ::step, ::step] if self.on_pixels else F.avg_pool2d(x, step)}


def patches(stride: int, on_pixels: bool) -> NetworkExtractor:
    """An extractor of mean colours, or of every ``stride``-th pixel."""
    return NetworkExtractor(
        f"p{stride}", Patches(stride, on_pixels), ["out"], InputRule(32, 1 if on_pixels else stride)
    )


def places(height: int, width: int) -> torch.Tensor:
    """An image whose first channel is the row of a pixel and whose second is its column."""
    rows, columns = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    return torch.stack([rows, columns, torch.zeros_like(rows)])[None].float()
