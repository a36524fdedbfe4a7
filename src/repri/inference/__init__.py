"""§3.3: the linear cosine classifier fitted to each task. Pure tensors; knows nothing of the rest."""

from .build import native_status
from .config import InferenceConfig
from .solver import InferenceResult, Step, infer, perturbed
from .task import true_proportion

__all__ = ["InferenceConfig", "InferenceResult", "Step", "infer", "native_status", "perturbed", "true_proportion"]
