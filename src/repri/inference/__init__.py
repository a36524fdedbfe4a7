"""§3.3: the linear cosine classifier fitted to each task. Pure tensors; knows nothing of the rest."""

from .build import native_status
from .config import InferenceConfig
from .guided import guided
from .joint import JointResult, infer_joint
from .solver import InferenceResult, Step, infer, perturbed
from .task import true_proportion

__all__ = [
    "InferenceConfig",
    "InferenceResult",
    "JointResult",
    "Step",
    "guided",
    "infer",
    "infer_joint",
    "native_status",
    "perturbed",
    "true_proportion",
]
