"""Regions: masks of things in an image, of whatever class, from a promptable mask model (SAM and its kind)."""

from typing import TYPE_CHECKING

from repri.runtime.lazy import lazy_names

__all__ = ["Embedding", "RegionModel", "Regions", "load_regions"]

if TYPE_CHECKING:
    from .load import load_regions
    from .model import Embedding, RegionModel, Regions

__getattr__ = lazy_names(
    __name__, {"load_regions": ".load", **dict.fromkeys(("Embedding", "RegionModel", "Regions"), ".model")}
)
