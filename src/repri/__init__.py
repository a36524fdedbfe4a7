"""Few-shot segmentation by transductive inference (RePRI)."""

from typing import TYPE_CHECKING

from repri.runtime.errors import RepriError
from repri.runtime.lazy import lazy_names

__version__ = "0.2.0"
__all__ = [
    "FeatureExtractor",
    "FeatureStore",
    "Fitted",
    "InferenceConfig",
    "InferenceResult",
    "RepriError",
    "Segmentation",
    "Segmenter",
    "build_method",
    "evaluate",
    "get_protocol",
    "infer",
    "load_extractor",
    "open_dataset",
    "perturbed",
    "register_extractor",
    "register_format",
    "register_method",
    "register_refiner",
    "sample_tasks",
    "true_proportion",
]

if TYPE_CHECKING:
    from .data import open_dataset, register_format, sample_tasks
    from .evaluation import evaluate
    from .features import FeatureExtractor, FeatureStore
    from .inference import InferenceConfig, InferenceResult, infer, perturbed, true_proportion
    from .methods import build_method, register_method
    from .models import load_extractor, register_extractor
    from .protocols import get_protocol
    from .refine import register_refiner
    from .segmenter import Fitted, Segmentation, Segmenter

__getattr__ = lazy_names(
    __name__,
    {
        **dict.fromkeys(("open_dataset", "register_format", "sample_tasks"), ".data"),
        **dict.fromkeys(("FeatureExtractor", "FeatureStore"), ".features"),
        **dict.fromkeys(("InferenceConfig", "InferenceResult", "infer", "perturbed", "true_proportion"), ".inference"),
        **dict.fromkeys(("build_method", "register_method"), ".methods"),
        **dict.fromkeys(("load_extractor", "register_extractor"), ".models"),
        **dict.fromkeys(("Fitted", "Segmentation", "Segmenter"), ".segmenter"),
        "evaluate": ".evaluation",
        "get_protocol": ".protocols",
        "register_refiner": ".refine",
    },
)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
