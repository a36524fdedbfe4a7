"""The compared methods behind one small interface."""

from repri.inference import true_proportion
from repri.inference.problem import shot_labels

from .base import Episode, Method, Prediction
from .registry import METHODS, build_method

__all__ = ["METHODS", "Episode", "Method", "Prediction", "build_method", "shot_labels", "true_proportion"]
