"""§3.2: base training, plain cross-entropy on the base classes. ``loop`` is the place to begin reading."""

from typing import TYPE_CHECKING

from repri.runtime.lazy import lazy_names

from .settings import TrainSettings

__all__ = ["Plan", "Stopped", "TrainSettings", "prepare", "train"]

if TYPE_CHECKING:
    from .loop import Stopped, train
    from .plan import Plan, prepare

__getattr__ = lazy_names(__name__, {"Stopped": ".signals", "train": ".loop", "Plan": ".plan", "prepare": ".plan"})
