"""§3.2: feature extractors and their weights."""

from .extractor import FeatureExtractor, InputRule
from .load import load_extractor
from .stitched import StitchedExtractor
from .whitening import MappedWhitening, Whitening, whitening_of

__all__ = [
    "FeatureExtractor",
    "InputRule",
    "MappedWhitening",
    "StitchedExtractor",
    "Whitening",
    "load_extractor",
    "whitening_of",
]
