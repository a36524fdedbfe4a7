"""Settings of a method. Free of torch, because flags of commands are made from them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

__all__ = ["MethodSettings"]


@dataclass(frozen=True)
class MethodSettings:
    """The method."""

    name: str = "repri"
    """Method: repri, repri-oracle, ce, ce_h, prototype, forest, panet, … (docs/methods.md lists them), one that another
    package adds, or the file of a trained method. {fold} is replaced by the number of the fold."""
    weights: str | None = field(default=None, metadata={"flag": "method-weights"})
    """File of the method's trained network, where the method is given by name. {fold} is replaced by the number of the
    fold."""
    preset: str | None = None
    """Inference preset (clean, original, trained, discriminant, paper, official); default: the one of the protocol, or
    the one that suits the extractor."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Single settings of the method, such as lr: 0.05 or delta: 0.3; on the command line --set lr=0.05."""
