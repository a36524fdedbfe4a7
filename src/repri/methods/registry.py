"""Methods by name, and how others are added."""

from __future__ import annotations

import inspect
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from repri.runtime.errors import RepriError
from repri.runtime.reading import short
from repri.runtime.registry import Registry

if TYPE_CHECKING:
    from .base import Method

__all__ = ["METHODS", "build_method", "number", "positions", "register_method", "whole_number"]

METHODS = Registry[Callable[..., "Method"]]("method", "repri.methods")


def register_method(name: str, about: str = "") -> Callable[[Any], Any]:
    """A decorator that adds a method under a name.

    Args:
        name: Name for ``repri evaluate --method``.
        about: One line that says what it is.

    Returns:
        The decorator, for a class or function that returns a :class:`repri.methods.Method`. Its keyword parameters
        are the settings of the method; one that is called ``preset`` receives the name of the inference preset that
        the protocol or the extractor wants.

    Example:
        >>> from repri.methods import Method, Prediction, register_method
        >>> @register_method("nothing")
        ... class Nothing(Method):
        ...     name = "nothing"
        ...     def predict(self, episode):
        ...         return Prediction(-abs(episode.query).sum(0))
        >>> build_method("nothing").name
        'nothing'
    """
    return METHODS.decorator(name, about)


def build_method(
    name: str,
    preset: str = "clean",
    settings: Mapping[str, Any] | None = None,
    weights: str | Path | None = None,
) -> Method:
    """A method with its settings.

    Args:
        name: A registered name, such as ``repri``, ``prototype`` or ``panet``, or the file of a trained method.
        preset: Inference preset, for methods that use one.
        settings: Single settings that differ from the preset or from the method's defaults. ``delta`` misleads an
            oracle.
        weights: File of the trained network, for methods that have one, or the folder in which it is called
            ``method.safetensors``.

    Returns:
        The method.

    Example:
        >>> build_method("ce", "official", {"steps": 10}).config.lambda_kl
        0.0
    """
    if not isinstance(name, (str, Path)):
        raise RepriError(f"A method is a name or the file of a trained one, got {name!r}.")
    name = str(name)
    if weights is None and (Path(name).suffix == ".safetensors" or (name not in METHODS and Path(name).is_dir())):
        name, weights = "", name
    if weights is not None:
        from .files import load_method

        return load_method(Path(weights), settings, name or None)
    builder, values = METHODS[name], dict(settings or {})
    builder = builder.builder if isinstance(builder, Late) else builder
    parameters = inspect.signature(builder).parameters
    if not any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values()):
        known = [key for key in parameters if key != "preset"]
        for key in values:
            if key not in known:
                raise RepriError(f"The method {name!r} has no setting {key!r}. Known: {', '.join(known) or 'none'}.")
    if "preset" in parameters:
        values["preset"] = preset
    return builder(**values)


def number(name: str, value: Any, above: float = -math.inf) -> float:
    """A setting that must be a finite number."""
    usual = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not usual or not (abs(value) <= sys.float_info.max and value > above):
        limit = f" above {above:g}" if above > -math.inf else ""
        raise RepriError(f"{name} must be a finite number{limit}, got {short(value)}.")
    return float(value)


def whole_number(name: str, value: Any) -> int:
    """A setting that must be an integer of at least 1."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise RepriError(f"{name} must be an integer of at least 1, got {short(value)}.")
    return value


def positions(name: str, value: Any) -> list[int] | None:
    """A setting that must be positions of layers: an integer, several, or None."""
    values = [value] if isinstance(value, int) else value
    whole = isinstance(values, Sequence) and all(isinstance(v, int) and not isinstance(v, bool) for v in values)
    if values is not None and (not whole or not values):
        raise RepriError(f"{name} must be positions of layers, such as 0 or [0, 1], got {value!r}.")
    return None if values is None else list(values)


@register_method("prototype", "nearest mean of the support's foreground and background")
def _prototype(temperature: float = 20.0) -> Method:
    from .prototype import Prototype

    return Prototype(temperature)


@register_method("forest", "a random forest on the support's cells, as ilastik and Weka do; needs scikit-learn")
def _forest(trees: int = 50, depth: int = 15, cells: int = 3000) -> Method:
    from .forest import Forest

    return Forest(trees, depth, cells)


@dataclass(frozen=True)
class Late:
    """A method of this folder, whose module is imported when the method is first built."""

    module: str
    kind: str

    @property
    def builder(self) -> Callable[..., Method]:
        """The class of the method."""
        return getattr(import_module(f"repri.methods.{self.module}"), self.kind)

    def __call__(self, **settings: Any) -> Method:
        return self.builder(**settings)


for _kind, _about in {
    "PANet": "cosine to class means (PANet); a linear embedding can be trained",
    "PPNet": "cosine to parts of the classes (PPNet); a linear embedding can be trained",
    "PMM": "mixtures of prototypes, matched directly (the part of PMM that trains nothing)",
    "RPMM": "mixtures of prototypes that steer a network (RPMM); has to be trained",
    "PFENet": "prior and feature enrichment (PFENet); has to be trained",
    "INSID3": "clusters of the query that match the object (INSID3)",
    "BAM": "any method, merged with a base learner (BAM); has to be trained",
}.items():
    METHODS.register(_kind.lower(), Late(_kind.lower(), _kind), _about)


def _register_repri(name: str, about: str, variant: Callable[[Any], Any]) -> None:
    """RePRI with one variant of the preset's settings."""

    @register_method(name, about)
    def build(preset: str = "clean", delta: float = 0.0, **settings: Any) -> Method:
        from repri.inference import InferenceConfig

        from .repri import RePRI

        if "needs_proportion" in settings:
            raise RepriError("needs_proportion is what makes an oracle: use the method repri-oracle, or repri.")
        config = variant(InferenceConfig.preset(preset)).replace(**settings)
        return RePRI(name, config, number("delta", delta))


_register_repri("ce", "the linear classifier with the support's cross-entropy alone", lambda c: c.without("h", "kl"))
_register_repri("ce_h", "cross-entropy and the query's entropy", lambda c: c.without("kl"))
_register_repri("repri", "cross-entropy, entropy and KL to the estimated proportion", lambda c: c)
_register_repri("repri-oracle", "the same, told the true proportion", lambda c: c.oracle())
