"""§3.2: base training, plain cross-entropy on the base classes."""

from .config import TrainConfig
from .loop import Stopped, train
from .plan import Plan, prepare

__all__ = ["Plan", "Stopped", "TrainConfig", "prepare", "train"]
