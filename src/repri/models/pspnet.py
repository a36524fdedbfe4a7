"""PSPNet [Zhao et al. 2017] as the paper trains it (§3.2, §4): no auxiliary loss, features of 512 channels."""

from __future__ import annotations

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

from .resnet import ResNet
from .vgg import VGG16

__all__ = ["BINS", "PSPNet", "PyramidPooling"]

BINS = (1, 2, 3, 6)


class PyramidPooling(nn.Module):
    """[B, C, h, w] → [B, 2 · C, h, w]: the input beside its means over 1, 2², 3² and 6² regions."""

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
        """[B, C / 4, b, b] for each bin."""
        return [branch(x) for branch in self.features]

    def forward(self, x: Tensor) -> Tensor:
        size = x.shape[-2:]
        maps = [F.interpolate(p, size=size, mode="bilinear", align_corners=True) for p in self.pooled(x)]
        return torch.cat([x, *maps], 1)


class PSPNet(nn.Module):
    """Backbone, pyramid pooling, 3×3 bottleneck to 512 channels (the features), 1×1 classifier."""

    def __init__(self, backbone: ResNet | VGG16, classes: int | None = None, width: int = 512, dropout: float = 0.1):
        super().__init__()
        self.backbone, self.strided = backbone, isinstance(backbone, ResNet)
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
        """All layers by name, ``"bottleneck"`` [B, 512, h, w] among them."""
        outputs = self.backbone(images)
        outputs["bottleneck"] = self.bottleneck(self.ppm(outputs["layer4"]))
        return outputs

    def segment(self, images: Tensor) -> Tensor:
        """Class logits [B, classes, H, W] at the size of the images."""
        if self.classifier is None:
            raise ValueError("this PSPNet has no classifier: build it with classes=…")
        logits = self.classifier(self(images)["bottleneck"])
        return F.interpolate(logits, size=images.shape[-2:], mode="bilinear", align_corners=True)
