"""PSPNet [Zhao et al. 2017] as the paper trains it (§3.2, §4): no auxiliary loss, features of 512 channels."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

from .resnet import ResNet
from .vgg import VGG16

__all__ = ["BINS", "PSPNet", "PyramidPooling", "pyramid_convolution", "taps"]

BINS = (1, 2, 3, 6)


class PyramidPooling(nn.Module):
    """[B, C, h, w] → [B, 2 · C, h, w]: the input, and its means over 1, 2², 3² and 6² regions."""

    def __init__(self, channels: int, bins: tuple[int, ...] = BINS):
        super().__init__()
        width = channels // len(bins)
        self.bins = bins
        self.features = nn.ModuleList(
            nn.Sequential(
                nn.AdaptiveAvgPool2d(size),
                nn.Conv2d(channels, width, 1, bias=False),
                nn.BatchNorm2d(width),
                nn.ReLU(inplace=True),
            )
            for size in bins
        )

    def pooled(self, x: Tensor) -> list[Tensor]:
        """Means of x [B, C, h, w] over the regions of each bin: one [B, C / 4, b, b] per bin."""
        return [branch(x) for branch in self.features]

    def forward(self, x: Tensor) -> Tensor:
        size = x.shape[-2:]
        maps = [F.interpolate(p, size=size, mode="bilinear", align_corners=True) for p in self.pooled(x)]
        return torch.cat([x, *maps], 1)


def taps(weight: Tensor) -> Tensor:
    """Reshape weights [o, c, 3, 3] to the matrix [(o, dy, dx), c] that :func:`pyramid_convolution` takes."""
    return weight.permute(0, 2, 3, 1).flatten(0, 2)


def pyramid_convolution(pooled: Sequence[Tensor], weights: Sequence[Tensor], size: tuple[int, int]) -> Tensor:
    """Compute a 3×3 convolution (padding 1) of upsampled maps without upsampling them.

    The convolution is linear, and so is bilinear upsampling: with U(y)[i, j] = Σ A[i, m]·B[j, n]·y[m, n],

        (W ∗ U(y))[i, j] = Σ_{dy, dx, m, n} (W[dy, dx] · y[m, n]) · A[i + dy − 1, m] · B[j + dx − 1, n]

    so the result is a product of W with b² vectors, spread by small fixed matrices. In a PSPNet, 50 pooled values take
    the place of half of the bottleneck's input.

    Args:
        pooled: Maps [B, c, b, b], one per bin.
        weights: :func:`taps` of the weights of each map.
        size: Height and width to which the maps would be upsampled.

    Returns:
        [B, o, h, w], equal to the convolution up to rounding.
    """
    height, width = size
    spread_rows, columns = [], []
    for values, weight in zip(pooled, weights, strict=True):
        cells = values.shape[-1]
        v = weight @ values.flatten(2)  # [B, (o, dy, dx), (m, n)]
        v = v.unflatten(1, (-1, 3, 3)).unflatten(-1, (cells, cells))  # [B, o, dy, dx, m, n]
        across = _shifted_bilinear(cells, width, v)  # [dx, j, n]
        columns.append(torch.einsum("boyxmn,xjn->boymj", v, across).flatten(2, 3))  # [B, o, (dy, m), j]
        spread_rows.append(_shifted_bilinear(cells, height, v).transpose(0, 1).flatten(1))  # [i, (dy, m)]
    return torch.cat(spread_rows, 1) @ torch.cat(columns, 2)


def _shifted_bilinear(cells: int, length: int, like: Tensor) -> Tensor:
    """Weights [3, length, cells] of ``cells`` values upsampled to ``length`` positions (align_corners), for the shifts
    −1, 0 and 1; zero where the shift leaves the image."""
    identity = torch.eye(cells, dtype=like.dtype, device=like.device)[None]
    weights = F.interpolate(identity, size=length, mode="linear", align_corners=True)[0].T
    padded = F.pad(weights, (0, 0, 1, 1))
    return torch.stack([padded[shift : shift + length] for shift in range(3)])


class PSPNet(nn.Module):
    """Backbone, pyramid pooling, 3×3 bottleneck to 512 channels (the features), 1×1 classifier.

    Args:
        backbone: A ResNet or VGG-16.
        classes: Number of classes, background included; None leaves out the classifier.
        width: Channels of the bottleneck.
        dropout: Probability with which training drops a channel of the bottleneck.
    """

    def __init__(self, backbone: ResNet | VGG16, classes: int | None = None, width: int = 512, dropout: float = 0.1):
        super().__init__()
        self.backbone, self.on_pixels = backbone, isinstance(backbone, ResNet)
        channels = backbone.channels["layer4"]
        self.channels = {**backbone.channels, "bottleneck": width}
        self.strides = {**backbone.strides, "bottleneck": backbone.strides["layer4"]}
        self.ppm = PyramidPooling(channels)
        self.bottleneck = nn.Sequential(
            nn.Conv2d(2 * channels, width, 3, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.Dropout2d(dropout),
        )
        self.classifier = None if classes is None else nn.Conv2d(width, classes, 1)

    def forward(self, images: Tensor) -> dict[str, Tensor]:
        """Compute all layers of images [B, 3, H, W] by name, ``"bottleneck"`` [B, 512, h, w] among them."""
        outputs = self.backbone(images)
        outputs["bottleneck"] = self.bottleneck(self.ppm(outputs["layer4"]))
        return outputs

    def factored_bottleneck(self, x: Tensor) -> Tensor:
        """Compute ``bottleneck(ppm(x))``, [B, C, h, w] → [B, 512, h, w], without convolving the pyramid's half."""
        convolution, *rest = self.bottleneck
        assert isinstance(convolution, nn.Conv2d)
        direct, pyramid = convolution.weight.split(x.shape[1], 1)
        weights = [taps(part) for part in pyramid.chunk(len(self.ppm.bins), 1)]
        y = F.conv2d(x, direct, padding=1)
        y = y + pyramid_convolution(self.ppm.pooled(x), weights, (x.shape[-2], x.shape[-1]))
        for layer in rest:
            y = layer(y)
        return y
