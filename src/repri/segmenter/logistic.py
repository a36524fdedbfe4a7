"""Logistic regression on all labelled cells, as the classifier of the expert on objects.

RePRI starts from one prototype for each class and takes a few small steps. That is right for one class and few
annotated images. With several classes, or with many labelled cells, a classifier that is fitted until it has converged
uses the labels better, and it is fitted only once. The terms of RePRI then adapt it to each query.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from repri.features.extractor import FeatureExtractor
from repri.inference import InferenceConfig, LinearClassifier, adapt, fit_logistic
from repri.inference.labels import IGNORE
from repri.methods import Method, RePRI

from .classify import Answer, Classifier, Shots
from .inputs import Known
from .look import Seen
from .presence import presence_of, similarity
from .present import without_absent
from .threads import one_thread

__all__ = ["LogisticClassifier", "make_classifier", "steps_of"]

BACKGROUNDS = 4000
"""Cells of the background that the classifier is fitted to, each for as many as there are more."""
KEPT = 2000
"""Most labelled cells that the steps on a query look at."""


class _Start(NamedTuple):
    """The classifier before it has seen a query."""

    mean: Tensor
    """[C] mean of the labelled cells."""
    linear: LinearClassifier
    support: Tensor
    """[M, C] some labelled cells."""
    targets: Tensor
    """[M, N + 1] fractions of the classes in these cells."""


@dataclass(frozen=True, eq=False)
class LogisticClassifier(Classifier):
    """Is fitted once, and adapted to each query."""

    start: _Start
    """The converged classifier of the support."""

    @cached_property
    def config(self) -> InferenceConfig:
        """Steps on each query."""
        return steps_of(self.method)

    def answer(self, queries: Sequence[Seen], known: Known) -> list[Answer]:
        """Probabilities, proportions and presences of several queries."""
        return [self._answer(seen, known) for seen in queries]

    def one_map(self, answer: Answer, known: Known) -> Answer:
        """The answer as it is, because the classifier itself knows which classes are absent, unless that is known."""
        if known.there is None:
            return answer
        there = torch.tensor(known.there).float()
        return Answer(without_absent(answer.probability, known.there), answer.proportion * there, there)

    def _answer(self, seen: Seen, known: Known) -> Answer:
        presence = presence_of(similarity(seen.white, seen.valid, self.directions))
        cells = _scaled(seen.features).flatten(1).mT - self.start.mean
        inside = cells[seen.valid.flatten()]
        weight, bias, proportion = self._adapted(inside, known.point)
        if known.limits is not None:
            bounded = proportion[1:].clamp(*known.limits)
            if not torch.equal(bounded, proportion[1:]):
                weight, bias, proportion = self._adapted(inside, tuple(bounded.tolist()))
        probability = torch.addmm(bias, cells, weight).softmax(1).mT.unflatten(1, seen.valid.shape)
        return Answer(probability[1:], proportion[1:], presence)

    def _adapted(self, cells: Tensor, point: tuple[float, ...] | None) -> tuple[Tensor, Tensor, Tensor]:
        """Weight, bias and proportions after the steps on a query."""
        config, told = self.config, None
        if point is not None:
            config, told = config.oracle().replace(lr=config.lr), torch.tensor(point)
        start = self.start
        return adapt(*start.linear, start.support, start.targets, cells, config, told, len(self.shots.features))


def make_classifier(
    logistic: bool, shots: Shots, classes: int, method: Method, extractor: FeatureExtractor, joint: bool
) -> Classifier:
    """The classifier of the expert on objects: a logistic regression, or the method itself."""
    if logistic:
        return LogisticClassifier(shots, classes, method, extractor, joint, _started(shots, classes))
    return Classifier(shots, classes, method, extractor, joint)


def steps_of(method: Method) -> InferenceConfig:
    """Steps on a query for a classifier that has learned the support, with the terms that the method has."""
    config = method.config if isinstance(method, RePRI) else None
    left_out = [term for term in ("h", "kl") if config and getattr(config, f"lambda_{term}") == 0]
    return InferenceConfig.preset("learned").without(*left_out)


def _scaled(features: Tensor) -> Tensor:
    """[C, h, w] features of length √C at each cell."""
    return F.normalize(features.float(), dim=0) * features.shape[0] ** 0.5


def _started(shots: Shots, classes: int) -> _Start:
    """The converged classifier of a support."""
    pairs = [_labelled(*shot, classes) for shot in zip(shots.features, shots.labels, strict=True)]
    rows, targets = (torch.cat(parts) for parts in zip(*pairs, strict=True))
    mean = rows.mean(0)
    rows = rows - mean
    empty = (targets[:, 0] == 1).nonzero()[:, 0]  # backgrounds, of which there are many
    every = max(1, len(empty) // BACKGROUNDS)
    kept = torch.cat([(targets[:, 0] < 1).nonzero()[:, 0], empty[::every]])
    counts = torch.where(targets[kept, 0] == 1, float(every), 1.0)
    with one_thread():
        linear = fit_logistic(rows[kept], targets[kept], counts)
    every = max(1, len(rows) // KEPT)
    return _Start(mean, linear, rows[::every], targets[::every])


def _labelled(features: Tensor, labels: Tensor, classes: int) -> tuple[Tensor, Tensor]:
    """Features [M, C] of the labelled cells of an image, and their fractions [M, N + 1] of the classes."""
    labels = labels.flatten()
    known = labels != IGNORE
    labels = labels[known]
    if classes == 1:
        targets = torch.stack([1 - labels.float(), labels.float()], 1)
    else:
        targets = F.one_hot(labels.long(), classes + 1).float()
    return _scaled(features).flatten(1)[:, known].mT, targets
