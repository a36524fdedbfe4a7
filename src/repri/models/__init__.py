"""§3.2: feature extractors and their weights."""

from .extractor import FeatureExtractor, InputRule
from .load import load_extractor

__all__ = ["FeatureExtractor", "InputRule", "load_extractor"]
