"""ResNet-50 and -101 [He et al. 2016] as PSPNet uses them: dilated so that the stride stays at 8.

Modules are named as in the released PSPNet and RePRI checkpoints (``layer0`` is the stem), so that
those load as they are.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Literal

import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

from repri.runtime.errors import RepriError

from .layered import Layered

__all__ = ["DEPTHS", "ResNet"]

DEPTHS = {"resnet50": (3, 4, 6, 3), "resnet101": (3, 4, 23, 3)}

Norm = Callable[[int], nn.Module]


class Bottleneck(nn.Module):
    """1×1, 3×3 and 1×1 convolutions with a shortcut: [B, C, h, w] → [B, 4 · ``width``, h, w]."""

    def __init__(
        self, channels: int, width: int, stride: int, dilation: int, stride_in: Literal["3x3", "1x1"], norm: Norm
    ):
        super().__init__()
        first, second = (stride, 1) if stride_in == "1x1" else (1, stride)
        self.conv1 = nn.Conv2d(channels, width, 1, first, bias=False)
        self.bn1 = norm(width)
        self.conv2 = nn.Conv2d(width, width, 3, second, padding=dilation, dilation=dilation, bias=False)
        self.bn2 = norm(width)
        self.conv3 = nn.Conv2d(width, 4 * width, 1, bias=False)
        self.bn3 = norm(4 * width)
        self.downsample = None
        if stride > 1 or channels != 4 * width:
            self.downsample = nn.Sequential(
                nn.Conv2d(channels, 4 * width, 1, stride, bias=False),
                norm(4 * width),
            )

    def forward(self, x: Tensor) -> Tensor:
        shortcut = x if self.downsample is None else self.downsample(x)
        x = F.relu(self.bn1(self.conv1(x)), inplace=True)
        x = F.relu(self.bn2(self.conv2(x)), inplace=True)
        x = self.bn3(self.conv3(x))
        x += shortcut
        return F.relu(x, inplace=True)


class ResNet(Layered):
    """Images [B, 3, H, W] → ``{"layer1": …, "layer4": [B, 2048, h, w]}``.

    Args:
        name: ``"resnet50"`` or ``"resnet101"``.
        stem: ``"deep"``: three 3×3 convolutions with 64, 64 and 128 channels; ``"plain"``: one 7×7 with 64.
        stride_in: Convolution in which a block halves the resolution: its 3×3 (as in torchvision) or its first 1×1
            (as in caffe).
        dilated: Whether the stride stays at 8 (``layer3`` dilated by 2, ``layer4`` by 4). Otherwise it is 32, as in
            classification.
        bn_eps: Epsilon of the batch norms.
    """

    on_pixels = True

    def __init__(
        self,
        name: str = "resnet50",
        stem: Literal["deep", "plain"] = "deep",
        stride_in: Literal["3x3", "1x1"] = "3x3",
        dilated: bool = True,
        bn_eps: float = 1e-5,
    ):
        super().__init__()
        if name not in DEPTHS or stem not in ("deep", "plain") or stride_in not in ("3x3", "1x1"):
            raise RepriError(
                f"A ResNet is one of {', '.join(DEPTHS)} with stem 'deep' or 'plain' and stride_in '3x3' or '1x1', "
                f"got {name!r}, {stem!r}, {stride_in!r}."
            )

        def norm(channels: int) -> nn.Module:
            return nn.BatchNorm2d(channels, eps=bn_eps)

        if stem == "deep":
            widths, convolutions = (3, 64, 64, 128), []
            for i in range(3):
                convolutions += [nn.Conv2d(widths[i], widths[i + 1], 3, 2 if i == 0 else 1, 1, bias=False)]
                convolutions += [norm(widths[i + 1]), nn.ReLU(inplace=True)]
        else:
            convolutions = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), norm(64), nn.ReLU(inplace=True)]
        self.layer0 = nn.Sequential(*convolutions, nn.MaxPool2d(3, 2, 1))
        channels = 128 if stem == "deep" else 64
        strides, dilations = ((1, 2, 1, 1), (1, 1, 2, 4)) if dilated else ((1, 2, 2, 2), (1, 1, 1, 1))
        for i, depth in enumerate(DEPTHS[name]):
            blocks = []
            for j in range(depth):
                stride = strides[i] if j == 0 else 1
                blocks.append(Bottleneck(channels, 64 * 2**i, stride, dilations[i], stride_in, norm))
                channels = 4 * 64 * 2**i
            self.add_module(f"layer{i + 1}", nn.Sequential(*blocks))
        self.channels = {"layer1": 256, "layer2": 512, "layer3": 1024, "layer4": 2048}
        self.strides = {"layer1": 4, "layer2": 8, "layer3": 8 if dilated else 16, "layer4": 8 if dilated else 32}

    def coarser(self, times: int, layer: str) -> ResNet | None:
        """Build the network that computes only every second or fourth cell of a layer, which is as much less work.

        A convolution that is dilated by 2 looks at every second cell. The cells between are never seen by those that
        are kept, so a stride before the block's 3×3 leaves the kept values as they are.

        Args:
            times: Distance of the kept cells: 2, or 4 for ``layer4``.
            layer: The layer whose cells are wanted.

        Returns:
            A copy with larger strides, or None if this network has no such equivalent.
        """
        if self.strides["layer4"] != 8 or (layer, times) not in (("layer3", 2), ("layer4", 2), ("layer4", 4)):
            return None
        coarse, done = copy.deepcopy(self), 1
        for name, dilation in (("layer3", 2), ("layer4", 4)):
            step = 2 if done < times else 1
            done *= step
            for number, block in enumerate(coarse.get_submodule(name).children()):
                assert isinstance(block, Bottleneck)
                block.conv2.dilation = block.conv2.padding = (dilation // done, dilation // done)
                if number == 0:
                    assert block.downsample is not None
                    for convolution in (block.conv1, block.downsample.get_submodule("0")):
                        assert isinstance(convolution, nn.Conv2d)
                        convolution.stride = (step, step)
            coarse.strides[name] = 8 * done
        return coarse
