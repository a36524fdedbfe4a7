"""Your own images: annotate a few, segment the rest."""

from .segmenter import Segmentation, Segmenter

__all__ = ["Segmentation", "Segmenter"]
