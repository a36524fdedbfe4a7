"""The same PSPNet, faster: batch norms folded, channels last, and the pyramid's half of the bottleneck factored.

The 3×3 bottleneck sees the backbone's features x beside four upsampled maps of b×b values. It is
linear, and so is bilinear upsampling: with U(y)[i, j] = Σ A[i, m]·B[j, n]·y[m, n],

    (W ∗ U(y))[i, j] = Σ_{dy, dx, m, n} (W[dy, dx] · y[m, n]) · A[i + dy − 1, m] · B[j + dx − 1, n]

so that half is a product of W with b² vectors, spread by small fixed matrices: 50 pooled values
take the place of a convolution over 2048 channels at 53×53. Exact up to rounding.
"""

from __future__ import annotations

import copy
import itertools

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor
from torch.nn.utils.fusion import fuse_conv_bn_eval

from .pspnet import PSPNet
from .resnet import Bottleneck

__all__ = ["FactoredHead", "accelerate", "fold_batch_norms"]


def accelerate(network: nn.Module) -> nn.Module:
    """An equivalent of a network in eval mode, for inference only."""
    fast = copy.deepcopy(network).eval()
    if isinstance(fast, PSPNet):
        head = FactoredHead(fast)
        fold_batch_norms(fast.backbone)
        fast = FastPSPNet(fast.backbone, head)
    else:
        fold_batch_norms(fast)
    return fast.requires_grad_(False).to(memory_format=torch.channels_last)  # ty: ignore[no-matching-overload]


class FastPSPNet(nn.Module):
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
        for i, part in enumerate(parts):  # [o, c, 3, 3] → [(o, dy, dx), c]
            self.register_buffer(f"pyramid{i}", part.permute(0, 2, 3, 1).flatten(0, 2).contiguous())

    def forward(self, x: Tensor) -> Tensor:
        height, width = x.shape[-2:]
        spread_rows, columns = [], []
        for i, (size, branch) in enumerate(zip(self.bins, self.branches, strict=True)):
            pooled = branch(x).flatten(2)  # [B, c, b²]
            v = self.get_buffer(f"pyramid{i}") @ pooled  # [B, (o, dy, dx), (m, n)]
            v = v.unflatten(1, (-1, 3, 3)).unflatten(-1, (size, size))  # [B, o, dy, dx, m, n]
            across = shifted_bilinear(size, width, v)  # [dx, j, n]
            columns.append(torch.einsum("boyxmn,xjn->boymj", v, across).flatten(2, 3))  # [B, o, (dy, m), j]
            spread_rows.append(shifted_bilinear(size, height, v).transpose(0, 1).flatten(1))  # [i, (dy, m)]
        pyramid = torch.cat(spread_rows, 1) @ torch.cat(columns, 2)  # [B, o, i, j]
        return F.relu(self.direct(x).add_(pyramid), inplace=True)


def shifted_bilinear(cells: int, length: int, like: Tensor) -> Tensor:
    """[3, length, cells]: for shifts −1, 0, 1, the weights of ``cells`` values upsampled to ``length``
    positions (align_corners), zero where the shift leaves the image."""
    identity = torch.eye(cells, dtype=like.dtype, device=like.device)[None]
    weights = F.interpolate(identity, size=length, mode="linear", align_corners=True)[0].T
    padded = F.pad(weights, (0, 0, 1, 1))
    return torch.stack([padded[shift : shift + length] for shift in range(3)])


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
