"""§3.3: the linear cosine classifier that is fitted to each task. Pure tensors; knows nothing of the rest."""

from typing import TYPE_CHECKING

from repri.runtime.lazy import lazy_names

from .config import InferenceConfig

if TYPE_CHECKING:
    from .backends.build import native_status
    from .joint import JointResult, infer_joint
    from .labels import true_proportion
    from .linear import Adapted, adapt
    from .logistic import LinearClassifier, fit_logistic
    from .result import InferenceResult, Step
    from .solver import infer, perturbed

__all__ = [
    "Adapted",
    "InferenceConfig",
    "InferenceResult",
    "JointResult",
    "LinearClassifier",
    "Step",
    "adapt",
    "fit_logistic",
    "infer",
    "infer_joint",
    "native_status",
    "perturbed",
    "true_proportion",
]

__getattr__ = lazy_names(
    __name__,
    {
        **dict.fromkeys(("Adapted", "adapt"), ".linear"),
        **dict.fromkeys(("JointResult", "infer_joint"), ".joint"),
        **dict.fromkeys(("InferenceResult", "Step"), ".result"),
        **dict.fromkeys(("infer", "perturbed"), ".solver"),
        **dict.fromkeys(("LinearClassifier", "fit_logistic"), ".logistic"),
        "native_status": ".backends.build",
        "true_proportion": ".labels",
    },
)
