"""Faster equivalents of our networks: folded batch norms, channels last, and a factored pyramid bottleneck."""

from __future__ import annotations

import copy
import itertools

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor
from torch.nn.utils.fusion import fuse_conv_bn_eval

from .pspnet import PSPNet, pyramid_convolution, taps
from .resnet import Bottleneck

__all__ = ["FactoredHead", "accelerate", "fold_batch_norms"]


def accelerate(network: nn.Module) -> nn.Module:
    """Build a faster network with the same outputs, for inference only.

    Args:
        network: Any of our networks; it is left as it is.

    Returns:
        A copy in eval mode whose outputs are equal up to rounding.
    """
    fast = copy.deepcopy(network).eval()
    if isinstance(fast, PSPNet):
        head = FactoredHead(fast)
        fold_batch_norms(fast.backbone)
        fast = FastPSPNet(fast.backbone, head)
    else:
        fold_batch_norms(fast)
    return fast.requires_grad_(False).to(memory_format=torch.channels_last)  # ty: ignore[no-matching-overload]


class FastPSPNet(nn.Module):
    """A PSPNet for inference: a folded backbone and a factored head."""

    def __init__(self, backbone: nn.Module, head: FactoredHead):
        super().__init__()
        self.backbone, self.head = backbone, head

    def forward(self, images: Tensor) -> dict[str, Tensor]:
        outputs = self.backbone(images.contiguous(memory_format=torch.channels_last))
        outputs["bottleneck"] = self.head(outputs["layer4"])
        return outputs


class FactoredHead(nn.Module):
    """Pyramid pooling and bottleneck of a PSPNet: [B, C, h, w] → [B, 512, h, w]."""

    def __init__(self, network: PSPNet):
        super().__init__()
        convolution, norm = network.bottleneck[0], network.bottleneck[1]
        fused = fuse_conv_bn_eval(convolution, norm)  # ty: ignore[invalid-argument-type]
        channels = fused.in_channels // 2
        self.direct = nn.Conv2d(channels, fused.out_channels, 3, padding=1)
        self.direct.weight = nn.Parameter(fused.weight[:, :channels].contiguous())
        self.direct.bias = fused.bias
        self.bins = network.ppm.bins
        self.branches = copy.deepcopy(network.ppm.features)
        for branch in self.branches:
            fold_batch_norms(branch)
        parts = fused.weight[:, channels:].chunk(len(self.bins), 1)
        for i, part in enumerate(parts):
            self.register_buffer(f"pyramid{i}", taps(part).contiguous())

    def forward(self, x: Tensor) -> Tensor:
        pooled = [branch(x) for branch in self.branches]
        weights = [self.get_buffer(f"pyramid{i}") for i in range(len(self.bins))]
        pyramid = pyramid_convolution(pooled, weights, (x.shape[-2], x.shape[-1]))
        return F.relu(self.direct(x).add_(pyramid), inplace=True)


def fold_batch_norms(module: nn.Module) -> None:
    """Fold each batch norm into the convolution before it, in place."""
    for child in module.children():
        fold_batch_norms(child)
    if isinstance(module, nn.Sequential):
        names = list(module._modules)
        pairs = list(itertools.pairwise(names))
    elif isinstance(module, Bottleneck):
        pairs = [("conv1", "bn1"), ("conv2", "bn2"), ("conv3", "bn3")]
    else:
        return
    for first, second in pairs:
        convolution, norm = module.get_submodule(first), module.get_submodule(second)
        if isinstance(convolution, nn.Conv2d) and isinstance(norm, nn.BatchNorm2d):
            setattr(module, first, fuse_conv_bn_eval(convolution, norm))
            setattr(module, second, nn.Identity())
