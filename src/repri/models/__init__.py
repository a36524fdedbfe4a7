"""§3.2: feature extractors and their weights."""

from repri.features.extractor import FeatureExtractor, InputRule
from repri.features.whitening import MappedWhitening, Whitening, whitening_of

from .extractors.stitched import StitchedExtractor
from .load import load_extractor

__all__ = [
    "FeatureExtractor",
    "InputRule",
    "MappedWhitening",
    "StitchedExtractor",
    "Whitening",
    "load_extractor",
    "whitening_of",
]
