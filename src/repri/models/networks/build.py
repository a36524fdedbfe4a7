"""Our own networks by name, untrained."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from repri.runtime.errors import RepriError

from .mobile import STAGES, CompactNet, MobileNet
from .pspnet import PSPNet
from .resnet import DEPTHS, ResNet
from .vgg import VGG16

__all__ = ["BACKBONES", "WHOLE", "Backbone", "Network", "add_head", "backbone_of", "build_backbone", "whole_name"]

Backbone = ResNet | VGG16 | MobileNet
Network = PSPNet | CompactNet

_LARGE = (*DEPTHS, "vgg16", "vgg16_bn")
BACKBONES = (*_LARGE, *STAGES)
"""Names of the backbones."""
WHOLE = (*(f"pspnet-{name}" for name in _LARGE), *(f"compact-{name}" for name in STAGES))
"""Names of the whole networks, each a backbone with a head."""


def whole_name(backbone: str) -> str:
    """Name of the whole network that has a backbone.

    Example:
        >>> whole_name("resnet50")
        'pspnet-resnet50'
    """
    return f"{'compact' if backbone in STAGES else 'pspnet'}-{backbone}"


def backbone_of(name: str) -> str:
    """Name of the backbone of a whole network; a backbone is its own.

    Example:
        >>> backbone_of("pspnet-resnet50")
        'resnet50'
    """
    return name.removeprefix("pspnet-").removeprefix("compact-")


def build_backbone(name: str, **architecture: Any) -> Backbone:
    """Build an untrained backbone.

    Args:
        name: One of ``BACKBONES``.
        **architecture: ``dilated`` and ``bn_eps``; for a ResNet also ``stem`` and ``stride_in``.

    Returns:
        The backbone, its weights at random.

    Example:
        >>> build_backbone("mobilenet_v2", dilated=False).strides["layer4"]
        32
    """
    if name not in BACKBONES:
        raise RepriError(f"There is no backbone named {name!r}. Known: {', '.join(BACKBONES)}.")
    allowed = {"stem", "stride_in", "bn_eps", "dilated"} if name in DEPTHS else {"bn_eps", "dilated"}
    for option in architecture:
        if option not in allowed:
            raise RepriError(f"{name} has no option {option!r}. Known: {', '.join(sorted(allowed))}.")
    if name in DEPTHS:
        return ResNet(name, **architecture)
    if name in STAGES:
        return MobileNet(name, **architecture)
    return VGG16(batch_norm=name == "vgg16_bn", **architecture)


def add_head(backbone: Backbone, classes: int | None = None, state: dict[str, Tensor] | None = None) -> Network:
    """Build the whole network on a backbone.

    Args:
        backbone: The backbone.
        classes: Number of classes; None leaves out the classifier.
        state: Tensors of the network by key, whose shapes decide its width; None takes the usual width.

    Returns:
        The network with an untrained head.
    """
    compact = isinstance(backbone, MobileNet)
    key, width = ("bottleneck.weight", 384) if compact else ("bottleneck.0.weight", 512)
    if state is not None and key in state:
        width = len(state[key])
    return CompactNet(backbone, classes, width) if compact else PSPNet(backbone, classes, width)
