"""What is trained: a PSPNet or compact network, whole or from a layer on, or a head on a frozen extractor."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from repri.features.extractor import IMAGENET, FeatureExtractor, InputRule
from repri.models.heads.files import AnyHead, save_head
from repri.models.networks.mobile import CompactNet
from repri.models.networks.pspnet import PSPNet
from repri.models.weights.checkpoints import save_checkpoint

from .square import cells_on_corners

__all__ = ["CompactTrainee", "HeadTrainee", "PSPTrainee", "Trainee", "parameters_of", "upsampled"]


class Trainee(nn.Module, ABC):
    """A network in training: images, or features of its frozen ``trunk`` → features and class logits."""

    trunk: FeatureExtractor | None
    """The frozen part, if there is one: its features are the input."""
    rule: InputRule
    """What the network wants of its images."""
    stride: int
    """Pixels between the cells of the features."""
    seen: tuple[str, ...] = ()
    """Classes whose labels are used in training; the exported file names them."""
    still: Sequence[nn.Module] = ()
    """Frozen parts, whose norms keep their means in training too."""

    def train(self, mode: bool = True) -> Trainee:
        """Set training or evaluation mode; frozen parts stay in evaluation mode."""
        super().train(mode)
        for module in self.still:
            module.eval()
        return self

    def aligned(self, side: int) -> bool:
        """Whether outer cells lie on the outer pixels of a square of ``side`` pixels."""
        return cells_on_corners(side, self.stride)

    @abstractmethod
    def features(self, x: Tensor) -> Tensor:
        """Features [B, C, h, w] for few-shot inference."""

    @property
    @abstractmethod
    def last(self) -> nn.Conv2d | None:
        """The classifier, features → [B, classes, h, w]; None where labels are not used."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        """Features [B, C, h, w], and class logits [B, classes, h, w] or None."""
        features = self.features(x)
        return features, None if self.last is None else self.last(features)

    def upsample(self, logits: Tensor, side: int) -> Tensor:
        """Class logits at the cells → [B, classes, side, side] at the pixels of the square."""
        return upsampled(logits.float(), (side, side), self.aligned(side))

    @abstractmethod
    def export(self, path: Path) -> None:
        """Write the file that ``load_extractor`` reads."""


class PSPTrainee(Trainee):
    """A PSPNet, frozen up to the layer ``frozen``."""

    def __init__(
        self,
        network: PSPNet,
        architecture: dict[str, Any],
        trunk: FeatureExtractor | None,
        frozen: str | None,
        recompute: bool,
    ):
        super().__init__()
        self.network, self.architecture, self.recompute = network, architecture, recompute
        self.trunk, self.rule, self.stride = trunk, IMAGENET, network.strides["bottleneck"]
        names = ["layer0", "layer1", "layer2", "layer3", "layer4"]
        self.active, self.still = _divided(network.backbone, names, frozen)

    def features(self, x: Tensor) -> Tensor:
        x = x.contiguous(memory_format=torch.channels_last)
        for name in self.active:
            layer = self.network.backbone.get_submodule(name)
            x = checkpoint(layer, x, use_reentrant=False) if self.recompute and self.training else layer(x)
        return self.network.factored_bottleneck(x)

    @property
    def last(self) -> nn.Conv2d:
        assert self.network.classifier is not None
        return self.network.classifier

    def export(self, path: Path) -> None:
        save_checkpoint(path, self.network.state_dict(), self.architecture | {"seen": self.seen})


class CompactTrainee(Trainee):
    """A compact network, frozen up to the layer ``frozen``."""

    def __init__(
        self, network: CompactNet, architecture: dict[str, Any], trunk: FeatureExtractor | None, frozen: str | None
    ):
        super().__init__()
        self.network, self.architecture, self.trunk, self.frozen = network, architecture, trunk, frozen
        self.rule, self.stride = IMAGENET, network.strides["bottleneck"]
        self.active, self.still = _divided(network.backbone, ["layer0", *network.backbone.channels], frozen)

    def features(self, x: Tensor) -> Tensor:
        x = x.contiguous(memory_format=torch.channels_last)
        outputs = {} if self.frozen is None else {self.frozen: x}
        for name in self.active:
            outputs[name] = x = self.network.backbone.get_submodule(name)(x)
        return self.network.head(outputs["layer3"], outputs["layer4"])

    @property
    def last(self) -> nn.Conv2d | None:
        return self.network.classifier

    def export(self, path: Path) -> None:
        save_checkpoint(path, self.network.state_dict(), self.architecture | {"seen": self.seen})


class HeadTrainee(Trainee):
    """A head, or the last blocks of a transformer, with a classifier, on a frozen extractor."""

    def __init__(self, trunk: FeatureExtractor, head: AnyHead, classes: int, base: dict[str, Any]):
        super().__init__()
        self.trunk, self.rule, self.stride = trunk, trunk.rule, trunk.stride // head.upsample
        self.head, self.base = head, base
        self.classifier = nn.Conv2d(head.out_channels, classes, 1)

    def aligned(self, side: int) -> bool:
        """Whether outer cells lie on outer pixels; upsampled cells divide the image evenly instead."""
        return self.head.upsample == 1 and super().aligned(side)

    def features(self, x: Tensor) -> Tensor:
        return self.head(x)

    @property
    def last(self) -> nn.Conv2d:
        return self.classifier

    def export(self, path: Path) -> None:
        classifier = {f"classifier.{key}": value for key, value in self.classifier.state_dict().items()}
        save_head(path, self.head, self.base | {"seen": self.seen}, classifier)


def _divided(backbone: nn.Module, names: list[str], frozen: str | None) -> tuple[list[str], list[nn.Module]]:
    """Names of the layers that are trained, and the layers up to ``frozen``, whose parameters are frozen."""
    start = 0 if frozen is None else names.index(frozen) + 1
    still = [backbone.get_submodule(name) for name in names[:start]]
    for module in still:
        module.requires_grad_(False)
    return names[start:], still


def upsampled(logits: Tensor, size: tuple[int, int], aligned: bool) -> Tensor:
    """Bilinear upsampling of maps [B, classes, h, w] → [B, classes, H, W].

    Args:
        logits: [B, classes, h, w].
        size: (H, W).
        aligned: Whether outer cells lie on outer pixels.

    Returns:
        [B, classes, H, W].
    """
    return F.interpolate(logits, size=size, mode="bilinear", align_corners=aligned)


def parameters_of(extractor: FeatureExtractor) -> int:
    """Number of parameters of the networks that an extractor runs, down to the one under its head."""
    return sum(p.numel() for network in _networks(extractor) for p in network.parameters())


def _networks(extractor: Any) -> list[Any]:
    if hasattr(extractor, "under"):
        return [*_networks(extractor.under), extractor.head]
    return [extractor.run] if hasattr(extractor, "run") else []
