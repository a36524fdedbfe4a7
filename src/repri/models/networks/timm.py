"""Backbones of timm, an optional library that is imported only when one of its models is asked for."""

from __future__ import annotations

from collections.abc import Sequence

import torch.nn as nn
from torch import Tensor

from repri.features.extractor import IMAGENET, InputRule
from repri.runtime.download import offline
from repri.runtime.errors import RepriError

from .extras import import_extra
from .layered import pick_layers

__all__ = ["TimmBackbone"]


class TimmBackbone(nn.Module):
    """A convolutional or Swin-like ``timm`` model: images [B, 3, H, W] → ``{"layer0": [B, C, h, w], …}``.

    Args:
        name: Name of the model in timm.
        layers: Feature levels to compute, by name or index; None takes the last one.
        pretrained: Whether the published weights are fetched.
    """

    def __init__(self, name: str, layers: Sequence[str | int] | None = None, pretrained: bool = True):
        super().__init__()
        timm = import_extra("timm", "timm", f"timm:{name}")
        if pretrained and offline():
            raise RepriError(f"REPRI_OFFLINE is set, so the weights of timm:{name} are not fetched.")
        try:
            probe = timm.create_model(name, pretrained=False, features_only=True)
            levels = [f"layer{i}" for i in range(len(probe.feature_info.channels()))]
            self.layers = pick_layers(layers, levels, f"timm:{name}")
            indices = tuple(levels.index(layer) for layer in self.layers)
            self.model = timm.create_model(name, pretrained=pretrained, features_only=True, out_indices=indices)
        except RuntimeError as error:
            raise RepriError(f"timm:{name} cannot be loaded: {str(error).splitlines()[0]}") from None
        self.channels = dict(zip(self.layers, self.model.feature_info.channels(), strict=True))
        self.strides = dict(zip(self.layers, map(int, self.model.feature_info.reduction()), strict=True))
        self.channels_last = getattr(self.model, "output_fmt", "NCHW") == "NHWC"
        data = timm.data.resolve_model_data_config(self.model)
        self.rule = InputRule(IMAGENET.size, 1, tuple(data["mean"]), tuple(data["std"]))

    def forward(self, images: Tensor) -> dict[str, Tensor]:
        maps = self.model(images)
        maps = [m.permute(0, 3, 1, 2) for m in maps] if self.channels_last else maps
        return dict(zip(self.layers, maps, strict=True))
