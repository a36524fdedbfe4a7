"""Methods by name, as a protocol wants them."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from repri.inference import InferenceConfig

from .base import Method
from .prototype import Prototype
from .repri import RePRI

__all__ = ["METHODS", "build_method"]

METHODS = {
    "prototype": "nearest mean of the support's foreground and background",
    "ce": "the linear classifier with the support's loss alone",
    "ce_h": "CE and the query's entropy",
    "repri": "CE, entropy and KL to the estimated proportion",
    "repri-oracle": "the same, told the true proportion",
}
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
        return Prototype(**values)
    if name not in _VARIANTS:
        close = difflib.get_close_matches(name, METHODS, n=1)
        hint = f", did you mean {close[0]!r}?" if close else "."
        raise ValueError(f"no method named {name!r}{hint} Known: {', '.join(METHODS)}")
    delta = values.pop("delta", 0.0)
    form = values.pop("form", protocol)
    config = InferenceConfig.preset(f"{form}{_VARIANTS[name]}").replace(**values)
    return RePRI(name, config, delta)
