"""Settings of a feature extractor, for commands and settings files. Free of torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["ExtractorSettings", "PartSettings"]


@dataclass(frozen=True)
class ExtractorSettings:
    """Which extractor is used, and how; :func:`repri.models.build_extractor` builds it."""

    name: str | None = None
    """Extractor: default (the embedded model), hub:NAME, timm:NAME, a trained .safetensors file, a .yaml file that
    joins several, a network such as pspnet-resnet50, lowlevel, or filters. {fold} is replaced by the number of the
    fold."""
    weights: str | None = None
    """Weights file, or the name of weights that `repri weights get` has fetched. {fold} is replaced by the number of
    the fold."""
    layers: tuple[str | int, ...] | None = None
    """Layers of the network, by name or by index; negative indices count from the end."""
    combine: Literal["concat", "mean"] = "concat"
    """Whether several layers are concatenated or averaged."""
    shifts: int = 1
    """Number of shifted copies of the image along each side: that many times finer features, for its square in time."""
    size: int | None = None
    """Long side of the images in pixels; by default the one that the extractor wants."""


@dataclass(frozen=True)
class PartSettings:
    """One extractor of a .yaml file that joins several."""

    name: str
    """Extractor, as in :class:`ExtractorSettings`."""
    weights: str | None = None
    """Weights file, or the name of fetched weights."""
    layers: tuple[str | int, ...] | None = None
    """Layers of the network, by name or by index."""
    combine: Literal["concat", "mean"] = "concat"
    """Whether several layers are concatenated or averaged."""
    shifts: int = 1
    """Number of shifted copies of the image along each side."""
    factor: float = 1.0
    """Sides of the image that this extractor gets, over those of the image that the joint one gets."""
    projected: bool = False
    """Whether only the whitened directions of its features are taken; it must know them, as ``twin`` does."""
