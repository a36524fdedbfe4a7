"""Small networks for machines without a GPU.

MobileNetV2 [Sandler et al. 2018] and EfficientNet-Lite0 [Tan & Le 2019, without squeeze-and-excitation] consist of
inverted residuals; :class:`CompactNet` adds a light head whose output serves as few-shot features.
"""

from __future__ import annotations

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

from repri.runtime.errors import RepriError

from .layered import Layered

__all__ = ["STAGES", "CompactNet", "MobileNet"]

STAGES = {
    "mobilenet_v2": (
        ((1, 16, 1, 1, 3),),
        ((6, 24, 2, 2, 3),),
        ((6, 32, 3, 2, 3),),
        ((6, 64, 4, 2, 3), (6, 96, 3, 1, 3)),
        ((6, 160, 3, 2, 3), (6, 320, 1, 1, 3)),
    ),
    "efficientnet_lite0": (
        ((1, 16, 1, 1, 3),),
        ((6, 24, 2, 2, 3),),
        ((6, 40, 2, 2, 5),),
        ((6, 80, 3, 2, 3), (6, 112, 3, 1, 5)),
        ((6, 192, 4, 2, 5), (6, 320, 1, 1, 3)),
    ),
}
"""Network → groups of equal blocks in ``layer0`` … ``layer4``, each as (expansion, channels, number of blocks, stride
of the first block, kernel)."""

STEM = 32


class InvertedResidual(nn.Module):
    """1×1 convolution to more channels, a convolution of each channel, and 1×1 back to few channels.

    A shortcut goes around them where the shapes of input and output are equal.
    """

    def __init__(self, channels: int, out: int, expansion: int, kernel: int, stride: int, dilation: int, bn_eps: float):
        super().__init__()
        wide = channels * expansion
        self.expand = _convolution(channels, wide, 1, bn_eps=bn_eps) if expansion > 1 else nn.Identity()
        self.spread = _convolution(wide, wide, kernel, stride, dilation, groups=wide, bn_eps=bn_eps)
        self.project = _convolution(wide, out, 1, bn_eps=bn_eps)[:2]
        self.shortcut = stride == 1 and channels == out

    def forward(self, x: Tensor) -> Tensor:
        y = self.project(self.spread(self.expand(x)))
        return x + y if self.shortcut else y


class MobileNet(Layered):
    """Images [B, 3, H, W] → ``{"layer1": …, "layer4": [B, 320, h, w]}``.

    Args:
        name: ``"mobilenet_v2"`` or ``"efficientnet_lite0"``.
        dilated: Whether the stride stays at 16 (``layer4`` dilated by 2). Otherwise it is 32, as in classification.
        bn_eps: Epsilon of the batch norms; None takes the published one.
    """

    on_pixels = True

    def __init__(self, name: str = "efficientnet_lite0", dilated: bool = True, bn_eps: float | None = None):
        super().__init__()
        if name not in STAGES:
            raise RepriError(f"A MobileNet is one of {', '.join(STAGES)}, got {name!r}.")
        if bn_eps is None:
            bn_eps = 1e-3 if name.startswith("efficientnet") else 1e-5
        self.channels: dict[str, int] = {}
        self.strides: dict[str, int] = {}
        channels, total = STEM, 2
        for i, stages in enumerate(STAGES[name]):
            blocks: list[nn.Module] = [_convolution(3, STEM, 3, 2, bn_eps=bn_eps)] if i == 0 else []
            for expansion, out, count, first, kernel in stages:
                for j in range(count):
                    stride, dilation = (first if j == 0 else 1), 1
                    if i == 4 and dilated:
                        stride, dilation = 1, 2
                    blocks.append(InvertedResidual(channels, out, expansion, kernel, stride, dilation, bn_eps))
                    channels, total = out, total * stride
            self.add_module(f"layer{i}", nn.Sequential(*blocks))
            if i:
                self.channels[f"layer{i}"], self.strides[f"layer{i}"] = channels, total


class CompactNet(nn.Module):
    """A MobileNet of stride 32 with a light head on its last two layers: means over regions, then wide blocks.

    The features (``"bottleneck"``) lie on the grid of ``layer3``, stride 16, and may have any sign, so that they can
    imitate those of another network.

    Args:
        backbone: A MobileNet with ``dilated=False``.
        classes: Number of classes, background included; None leaves out the classifier.
        width: Channels of the features.
        depth: Number of wide blocks.
    """

    on_pixels = True

    def __init__(self, backbone: MobileNet, classes: int | None = None, width: int = 384, depth: int = 2):
        super().__init__()
        self.backbone = backbone
        self.channels = {**backbone.channels, "bottleneck": width}
        self.strides = {**backbone.strides, "bottleneck": backbone.strides["layer3"]}
        channels = backbone.channels["layer3"] + backbone.channels["layer4"]
        self.reduce = _convolution(channels, width, 1)
        self.context = RegionMeans(width)
        self.mix = nn.Sequential(*(WideBlock(width) for _ in range(depth)))
        self.bottleneck = nn.Conv2d(width, width, 1)
        self.classifier = None if classes is None else nn.Conv2d(width, classes, 1)
        self.to(memory_format=torch.channels_last)  # a third faster to train on a CPU  # ty: ignore[no-matching-overload]

    def forward(self, images: Tensor) -> dict[str, Tensor]:
        """Compute all layers of images [B, 3, H, W] by name, ``"bottleneck"`` among them."""
        outputs = self.backbone(images.contiguous(memory_format=torch.channels_last))
        outputs["bottleneck"] = self.head(outputs["layer3"], outputs["layer4"])
        return outputs

    def head(self, fine: Tensor, coarse: Tensor) -> Tensor:
        """Compute the features [B, width, h, w] from ``layer3`` (fine) and ``layer4`` (coarse)."""
        coarse = F.interpolate(coarse, size=fine.shape[-2:], mode="bilinear", align_corners=True)
        return self.bottleneck(self.mix(self.context(self.reduce(torch.cat([fine, coarse], 1)))))


class RegionMeans(nn.Module):
    """[B, C, h, w] → [B, C, h, w]: the input plus 1×1 convolutions of its means over 1, 2², 3² and 6² regions."""

    def __init__(self, channels: int, bins: tuple[int, ...] = (1, 2, 3, 6)):
        super().__init__()
        self.bins = bins
        self.project = nn.ModuleList(nn.Conv2d(channels, channels, 1, bias=False) for _ in bins)

    def forward(self, x: Tensor) -> Tensor:
        total = x
        for size, project in zip(self.bins, self.project, strict=True):
            means = project(F.adaptive_avg_pool2d(x, size))
            total = total + F.interpolate(means, size=x.shape[-2:], mode="bilinear", align_corners=False)
        return total


class WideBlock(nn.Module):
    """A 7×7 convolution of each channel and two 1×1 with three times the channels in between, with a shortcut."""

    def __init__(self, channels: int, kernel: int = 7, expansion: int = 3):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels, channels, kernel, padding=kernel // 2, groups=channels, bias=False),
            nn.BatchNorm2d(channels),
            nn.Conv2d(channels, expansion * channels, 1),
            nn.ReLU6(inplace=True),
            nn.Conv2d(expansion * channels, channels, 1, bias=False),
            nn.BatchNorm2d(channels),
        )

    def forward(self, x: Tensor) -> Tensor:
        return x + self.body(x)


def _convolution(
    channels: int, out: int, kernel: int, stride: int = 1, dilation: int = 1, groups: int = 1, bn_eps: float = 1e-5
) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(channels, out, kernel, stride, dilation * (kernel // 2), dilation, groups, bias=False),
        nn.BatchNorm2d(out, eps=bn_eps),
        nn.ReLU6(inplace=True),
    )
