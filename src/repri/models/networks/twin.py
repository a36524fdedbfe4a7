"""The network of the embedded model: a compact network, and a second copy of its backbone's upper layers."""

from __future__ import annotations

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

from .build import build_backbone
from .mobile import CompactNet

__all__ = ["TwinNet"]


class TwinNet(nn.Module):
    """Two networks that share their lower layers.

    The upper layers of the compact network imitate the features of a teacher. Those of the twin keep the weights of
    ImageNet's classification, and so they still tell kinds of things apart that the teacher's features mix. They leave
    out the last block, which only widens the features. ``twin4`` is brought to the grid of ``twin3``, on which the
    features (``"bottleneck"``) lie too.

    Args:
        compact: The compact network. Its ``layer0`` to ``layer2`` serve both.
        backbone: Name of its backbone.
    """

    on_pixels = True
    networks = 2
    wanted: tuple[str, ...] = ("twin3", "twin4", "bottleneck")
    """Layers that are computed."""

    def __init__(self, compact: CompactNet, backbone: str = "efficientnet_lite0"):
        super().__init__()
        self.compact = compact
        full = build_backbone(backbone, dilated=False)
        upper = nn.Sequential(*list(full.get_submodule("layer4").children())[:-1])
        self.twin = nn.ModuleDict({"layer3": full.get_submodule("layer3"), "layer4": upper})
        own, fine = compact.channels, compact.strides["layer3"]
        narrow = next(len(weight) for name, weight in upper[-1].named_parameters() if name == "project.0.weight")
        self.channels = {"twin3": own["layer3"], "twin4": narrow, "bottleneck": own["bottleneck"]}
        self.strides = dict.fromkeys(self.channels, fine)

    def forward(self, images: Tensor) -> dict[str, Tensor]:
        """Compute the wanted layers of images [B, 3, H, W] by name."""
        own, lower = self.compact.backbone.get_submodule, images.contiguous(memory_format=torch.channels_last)
        for name in ("layer0", "layer1", "layer2"):
            lower = own(name)(lower)
        outputs = {}
        if "bottleneck" in self.wanted:
            fine = own("layer3")(lower)
            outputs["bottleneck"] = self.compact.head(fine, own("layer4")(fine))
        if "twin3" in self.wanted or "twin4" in self.wanted:
            outputs["twin3"] = fine = self.twin["layer3"](lower)
            coarse = self.twin["layer4"](fine)
            outputs["twin4"] = F.interpolate(coarse, fine.shape[-2:], mode="bilinear", align_corners=True)
        return outputs
