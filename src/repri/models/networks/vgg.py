"""VGG-16 [Simonyan & Zisserman 2015], with and without batch normalisation, dilated to stride 8.

The five groups of convolutions are ``layer0`` … ``layer4``, as in the released PSPNet checkpoints.
"""

from __future__ import annotations

import torch.nn as nn

from .layered import Layered

__all__ = ["GROUPS", "VGG16"]

GROUPS = ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512))


class VGG16(Layered):
    """Images [B, 3, H, W] → ``{"layer1": …, "layer4": [B, 512, h, w]}``.

    Each of the first four groups ends with its pooling, as in the published order of modules. Poolings round up, so
    that 417 pixels give 53 cells as in the ResNets.

    Args:
        batch_norm: Whether each convolution is followed by a batch norm.
        dilated: Whether the stride stays at 8: the fourth pooling does not stride, and ``layer4`` is dilated by 2 in
            its place. Otherwise the stride is 16.
        bn_eps: Epsilon of the batch norms.
    """

    def __init__(self, batch_norm: bool = False, dilated: bool = True, bn_eps: float = 1e-5):
        super().__init__()
        self.channels = {"layer1": 128, "layer2": 256, "layer3": 512, "layer4": 512}
        self.strides = {"layer1": 4, "layer2": 8, "layer3": 8 if dilated else 16, "layer4": 8 if dilated else 16}
        channels = 3
        for i, widths in enumerate(GROUPS):
            dilation = 2 if i == 4 and dilated else 1
            modules: list[nn.Module] = []
            for width in widths:
                modules.append(nn.Conv2d(channels, width, 3, padding=dilation, dilation=dilation))
                modules += [nn.BatchNorm2d(width, eps=bn_eps)] if batch_norm else []
                modules.append(nn.ReLU(inplace=True))
                channels = width
            if i < 3 or (i == 3 and not dilated):
                modules.append(nn.MaxPool2d(2, 2, ceil_mode=True))
            elif i == 3:
                modules.append(nn.MaxPool2d(3, 1, 1))
            self.add_module(f"layer{i}", nn.Sequential(*modules))
