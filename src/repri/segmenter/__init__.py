"""Your own images: annotate a few, segment the rest."""

from typing import TYPE_CHECKING

from repri.runtime.lazy import lazy_names

if TYPE_CHECKING:
    from .fitted import Fitted
    from .result import Segmentation
    from .segmenter import Segmenter

__all__ = ["Fitted", "Segmentation", "Segmenter"]

__getattr__ = lazy_names(__name__, {"Fitted": ".fitted", "Segmentation": ".result", "Segmenter": ".segmenter"})
