"""Few-shot segmentation by transductive inference (RePRI)."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = ["InferenceConfig", "InferenceResult", "infer", "perturbed", "true_proportion"]

if TYPE_CHECKING:
    from .inference import InferenceConfig, InferenceResult, infer, perturbed, true_proportion


def __getattr__(name: str) -> Any:  # torch takes seconds to import: only when something of it is asked for
    if name in __all__:
        return getattr(import_module(".inference", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
