"""§3.2: networks, heads and weights, and the feature extractors that are made of them."""

from typing import TYPE_CHECKING

from repri.runtime.lazy import lazy_names

if TYPE_CHECKING:
    from repri.features.extractor import FeatureExtractor, InputRule
    from repri.features.whitening import MappedWhitening, Whitening, whitening_of

    from .extractors.stitched import StitchedExtractor
    from .load import EXTRACTORS, build_extractor, load_extractor
    from .registry import register_extractor
    from .settings import ExtractorSettings

__all__ = [
    "EXTRACTORS",
    "ExtractorSettings",
    "FeatureExtractor",
    "InputRule",
    "MappedWhitening",
    "StitchedExtractor",
    "Whitening",
    "build_extractor",
    "load_extractor",
    "register_extractor",
    "whitening_of",
]

__getattr__ = lazy_names(
    __name__,
    {
        "EXTRACTORS": ".load",
        "ExtractorSettings": ".settings",
        "FeatureExtractor": "repri.features.extractor",
        "InputRule": "repri.features.extractor",
        "MappedWhitening": "repri.features.whitening",
        "StitchedExtractor": ".extractors.stitched",
        "Whitening": "repri.features.whitening",
        "build_extractor": ".load",
        "load_extractor": ".load",
        "register_extractor": ".registry",
        "whitening_of": "repri.features.whitening",
    },
)
