"""What a method gets and what it gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from torch import Tensor

__all__ = ["Episode", "Method", "Prediction"]


@dataclass(frozen=True, eq=False)
class Episode:
    """One task in features: K labelled shots and a query; shapes may differ from image to image."""

    support: list[Tensor]
    """K of [C, hₖ, wₖ]."""
    masks: list[Tensor]
    """K of [Hₖ, Wₖ]: 0, 1, 255 for unlabelled, or soft values."""
    query: Tensor
    """[C, h, w]."""
    query_valid: Tensor | None = None
    """bool [H, W]: query pixels that may be used."""
    proportion: float | None = None
    """π*₁, for oracles only."""
    background: Tensor | None = None
    """[C] what the extractor knows of backgrounds in general."""


class Prediction(NamedTuple):
    logits: Tensor
    """[h, w]: above 0 is foreground."""
    initial_proportion: float | None = None
    """π₁ before the first step, of methods that have one."""
    proportion: float | None = None
    """π₁ that was used last."""


class Method(Protocol):
    name: str
    oracle: bool
    """Whether it must be told the object's true proportion."""

    def predict(self, episode: Episode) -> Prediction:
        """The foreground logits of the query."""
        ...

    def settings(self) -> dict[str, Any]:
        """Everything that decides its predictions, as plain values."""
        ...
