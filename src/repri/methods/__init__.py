"""The compared methods behind one small interface; one file each."""

from typing import TYPE_CHECKING

from repri.runtime.lazy import lazy_names

if TYPE_CHECKING:
    from .base import Episode, Method, Prediction, Support
    from .files import load_method, save_method
    from .forest import Forest
    from .learned import FewShotNetwork, LearnedMethod, Shot, Training
    from .panet import PANet
    from .prototype import Prototype
    from .registry import METHODS, build_method, register_method
    from .repri import RePRI

__all__ = [
    "METHODS",
    "Episode",
    "FewShotNetwork",
    "Forest",
    "LearnedMethod",
    "Method",
    "PANet",
    "Prediction",
    "Prototype",
    "RePRI",
    "Shot",
    "Support",
    "Training",
    "build_method",
    "load_method",
    "register_method",
    "save_method",
]

__getattr__ = lazy_names(
    __name__,
    {
        **dict.fromkeys(("Episode", "Method", "Prediction", "Support"), ".base"),
        **dict.fromkeys(("METHODS", "build_method", "register_method"), ".registry"),
        **dict.fromkeys(("load_method", "save_method"), ".files"),
        **dict.fromkeys(("FewShotNetwork", "LearnedMethod", "Shot", "Training"), ".learned"),
        "Forest": ".forest",
        "PANet": ".panet",
        "Prototype": ".prototype",
        "RePRI": ".repri",
    },
)
