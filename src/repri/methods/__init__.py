"""The compared methods behind one small interface; one file each."""

from typing import TYPE_CHECKING

from repri.runtime.lazy import lazy_names

if TYPE_CHECKING:
    from .base import Episode, Method, Prediction, Support
    from .forest import Forest
    from .prototype import Prototype
    from .registry import METHODS, build_method, register_method
    from .repri import RePRI

__all__ = [
    "METHODS",
    "Episode",
    "Forest",
    "Method",
    "Prediction",
    "Prototype",
    "RePRI",
    "Support",
    "build_method",
    "register_method",
]

__getattr__ = lazy_names(
    __name__,
    {
        **dict.fromkeys(("Episode", "Method", "Prediction", "Support"), ".base"),
        **dict.fromkeys(("METHODS", "build_method", "register_method"), ".registry"),
        "Forest": ".forest",
        "Prototype": ".prototype",
        "RePRI": ".repri",
    },
)
