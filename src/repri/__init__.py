"""Few-shot segmentation by transductive inference (RePRI)."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = [
    "FeatureExtractor",
    "InferenceConfig",
    "InferenceResult",
    "Segmentation",
    "Segmenter",
    "infer",
    "load_extractor",
    "perturbed",
    "true_proportion",
]

if TYPE_CHECKING:
    from .inference import InferenceConfig, InferenceResult, infer, perturbed, true_proportion
    from .models import FeatureExtractor, load_extractor
    from .segmenter import Segmentation, Segmenter

_ROOMS = dict.fromkeys(__all__, ".inference")
_ROOMS |= dict.fromkeys(("FeatureExtractor", "load_extractor"), ".models")
_ROOMS |= dict.fromkeys(("Segmentation", "Segmenter"), ".segmenter")


def __getattr__(name: str) -> Any:  # torch takes seconds to import: only when something of it is asked for
    if name in _ROOMS:
        return getattr(import_module(_ROOMS[name], __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
