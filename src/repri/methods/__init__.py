"""The compared methods behind one small interface."""

from repri.inference import true_proportion

from .base import Episode, Method, Prediction
from .registry import METHODS, build_method

__all__ = ["METHODS", "Episode", "Method", "Prediction", "build_method", "true_proportion"]
