"""A random forest on the labelled cells, as the trainable segmenters of microscope images use it."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from repri.inference.labels import IGNORE
from repri.runtime.errors import MissingExtraError, RepriError

from .base import Episode, Method, Prediction, Support
from .registry import whole_number

__all__ = ["Forest"]

CLIP = 1e-3
"""Probabilities lie in [CLIP, 1 − CLIP], so that their logits are finite."""


class Forest(Method):
    """logit = log p/(1 − p), with p the foreground probability of a random forest that is fitted to the support.

    It is fitted once for all episodes that share their support object.

    Args:
        trees: Number of trees.
        depth: Largest depth of a tree.
        cells: Largest number of cells that are drawn of each class in each shot.

    Example:
        >>> Forest(trees=20).settings()
        {'trees': 20, 'depth': 15, 'cells': 3000}
    """

    name = "forest"

    def __init__(self, trees: int = 50, depth: int = 15, cells: int = 3000):
        self.trees, self.depth = whole_number("trees", trees), whole_number("depth", depth)
        self.cells = whole_number("cells", cells)
        self._fitted: WeakKeyDictionary[Support, Any] = WeakKeyDictionary()

    def predict(self, episode: Episode) -> Prediction:
        forest = self._fitted.get(episode.support)
        if forest is None:
            forest = self._fitted[episode.support] = self._fit(episode.support)
        query = episode.query
        columns = forest.predict_proba(_rows(query).numpy())  # [h·w, classes that the support has]
        known = list(forest.classes_)
        foreground = torch.from_numpy(columns[:, known.index(1)]) if 1 in known else torch.zeros(len(columns))
        logits = foreground.float().clamp(CLIP, 1 - CLIP).logit()
        return Prediction(logits.reshape(query.shape[-2:]).to(query.device))

    def _fit(self, support: Support) -> Any:
        try:
            from sklearn.ensemble import RandomForestClassifier
        except ImportError:
            raise MissingExtraError("The method forest needs scikit-learn: pip install 'repri[forest]'.") from None
        rows, classes = drawn_cells(support, self.cells)
        forest = RandomForestClassifier(self.trees, max_depth=self.depth, n_jobs=1, random_state=0)
        return forest.fit(rows.numpy(), classes.numpy())

    def settings(self) -> dict[str, Any]:
        return {"trees": self.trees, "depth": self.depth, "cells": self.cells}


def drawn_cells(support: Support, cells: int) -> tuple[Tensor, Tensor]:
    """Labelled cells of a support, drawn with a fixed seed.

    Args:
        support: The support.
        cells: Largest number of cells of each class in each shot.

    Returns:
        [M, C] features and [M] classes: 1 for cells that are foreground by more than half, else 0.
    """
    draw = torch.Generator().manual_seed(0)
    rows, classes = [], []
    for features, labels in zip(support.features, support.labels, strict=True):
        flat = labels.flatten().cpu()
        for number, chosen in ((0, flat <= 0.5), (1, (flat > 0.5) & (flat != IGNORE))):
            places = chosen.nonzero()[:, 0]
            places = places[torch.randperm(len(places), generator=draw)[:cells]].sort().values
            rows.append(_rows(features)[places])
            classes.append(torch.full((len(places),), number))
    if not sum(map(len, rows)):
        raise RepriError("The support labels hold no labelled cell: mark the object in at least one image.")
    return torch.cat(rows), torch.cat(classes)


def _rows(features: Tensor) -> Tensor:
    """Features [C, h, w] as rows [h·w, C], on the CPU."""
    return features.flatten(1).T.float().cpu().contiguous()
