"""Methods by name, as a protocol wants them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from repri.inference import InferenceConfig
from repri.runtime.settings import nearest

from .base import Method
from .prototype import Prototype
from .repri import RePRI

__all__ = ["FORMS", "METHODS", "build_method"]

METHODS = {
    "prototype": "nearest mean of the support's foreground and background",
    "ce": "the linear classifier with the support's loss alone",
    "ce_h": "CE and the query's entropy",
    "repri": "CE, entropy and KL to the estimated proportion",
    "repri-oracle": "the same, told the true proportion",
}
FORMS = ("clean", "original", "trained", "discriminant", "paper", "official")
"""Whose settings the classifier may take; see :meth:`InferenceConfig.preset`."""
_VARIANTS = {"ce": "-ce", "ce_h": "-ce_h", "repri": "", "repri-oracle": "-oracle"}


def build_method(name: str, protocol: str = "clean", settings: Mapping[str, Any] | None = None) -> Method:
    """A method with a protocol's settings.

    ``settings`` override single ones; ``delta`` misleads an oracle, ``form`` takes the settings of another preset
    than the protocol's (``original``: the authors' classifier, without a background prototype; ``trained``
    and ``discriminant``: for base-trained features).
    """
    values = dict(settings or {})
    if name == "prototype":
        unknown = set(values) - {"temperature"}
        if unknown:
            raise ValueError(f"prototype has no setting {min(unknown)!r}; known: temperature")
        return Prototype(**{key: _number(key, value, above=0.0) for key, value in values.items()})
    if name not in _VARIANTS:
        raise ValueError(f"no method named {name!r}{nearest(name, list(METHODS))} Known: {', '.join(METHODS)}")
    delta = _number("delta", values.pop("delta", 0.0))
    form = values.pop("form", protocol)
    if form not in FORMS:
        raise ValueError(f"no form named {form!r}{nearest(str(form), FORMS)} Known: {', '.join(FORMS)}")
    if "needs_proportion" in values:
        raise ValueError("needs_proportion is what makes an oracle: take the method repri-oracle, or repri")
    config = InferenceConfig.preset(f"{form}{_VARIANTS[name]}").replace(**values)
    return RePRI(name, config, delta)


def _number(name: str, value: Any, above: float = -math.inf) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not above < value < math.inf:
        raise ValueError(f"{name} must be a finite number{f' > {above:g}' if above > -math.inf else ''}, got {value!r}")
    return float(value)
