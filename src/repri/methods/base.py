"""The interface of few-shot methods: a support and a query in, logits of the query out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from torch import Tensor

from repri.features.extractor import FeatureExtractor
from repri.features.grid import Grid
from repri.features.labels import Weighting, cell_weights, label_weights
from repri.inference.labels import IGNORE, on_one_grid

__all__ = ["Episode", "Method", "Prediction", "Support"]


@dataclass(frozen=True, eq=False)
class Support:
    """K labelled shots; their shapes may differ."""

    features: Sequence[Tensor]
    """K tensors [C, hₖ, wₖ]."""
    labels: Sequence[Tensor]
    """K tensors [hₖ, wₖ]: 0, 1, soft values between them, 255 for unlabelled cells."""
    masks: Sequence[Tensor] | None = None
    """K masks [Hₖ, Wₖ] at the size of the network's input, 255 in its padding, for methods that look at them."""
    grids: Sequence[Grid] | None = None
    """Where the cells lie on the masks."""

    @cached_property
    def stacked(self) -> tuple[Tensor, Tensor]:
        """Features [K, C, h, w] and labels [K, h, w] on one grid, zero and 255 where a shot has no cell."""
        return on_one_grid(self.features), on_one_grid(self.labels, IGNORE)

    def weights(self, how: Weighting) -> Tensor:
        """[K, 2, h, w] weights of background and object, as :func:`repri.features.cell_weights` makes them of the
        masks, zero where a shot has no cell; without masks, or where resizing lost the object, those of the labels."""
        plain = [label_weights(labels) for labels in self.labels]
        if self.masks is None or self.grids is None:
            return on_one_grid(plain)
        made = (cell_weights(mask, grid, how) for mask, grid in zip(self.masks, self.grids, strict=True))
        return on_one_grid([w if w[1].any() else labels for w, labels in zip(made, plain, strict=True)])


@dataclass(frozen=True, eq=False)
class Episode:
    """One task in features: a support and a query."""

    support: Support
    query: Tensor
    """[C, h, w]."""
    query_valid: Tensor | None = None
    """bool [h, w]: query cells that may be used; None: all."""
    proportion: float | None = None
    """π₁ of the query, if it is known: the truth for an oracle, or what a user says."""
    background: Tensor | None = None
    """[C] direction of backgrounds in general, if the extractor knows it."""
    widths: tuple[int, ...] | None = None
    """Number of channels of each layer of the features; None: they are one layer."""


class Prediction(NamedTuple):
    """What a method says about the query of an episode."""

    logits: Tensor
    """[h, w]: above 0 means foreground; the sigmoid is the foreground probability."""
    proportion: float | None = None
    """π₁ that was used last, if the method has one."""
    initial_proportion: float | None = None
    """π₁ before the first step, if the method has one."""


class Method(ABC):
    """A few-shot segmentation method on frozen features."""

    name: str
    """Name in results."""
    oracle: bool = False
    """Whether it must be told the object's true proportion."""
    needs_masks: bool = False
    """Whether it looks at the masks of a support, not only at the labels of its cells."""
    seen: tuple[str, ...] = ()
    """Classes with whose labels it was trained: they are not novel to it."""

    @abstractmethod
    def predict(self, episode: Episode) -> Prediction:
        """Segment the query of one episode."""

    def predict_many(self, episodes: Sequence[Episode]) -> list[Prediction]:
        """Segment several queries that share one support; methods that gain from a batch override this."""
        return [self.predict(episode) for episode in episodes]

    def check(self, extractor: FeatureExtractor) -> None:
        """Raise a RepriError if the method cannot use the features of an extractor; others override this."""
        return

    def prepare(self, extractor: FeatureExtractor) -> None:
        """Get ready for the features of an extractor; called once before the first prediction."""
        self.check(extractor)

    def settings(self) -> dict[str, Any]:
        """Everything that decides the predictions, as plain values; results keep it."""
        return {}
