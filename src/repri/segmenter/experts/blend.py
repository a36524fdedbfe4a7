"""Two experts on one image: the one on objects, and the one on colours and textures.

The expert on objects knows kinds of things and has large cells. The expert on textures has cells of two pixels and
knows only what the support shows. Their probabilities are multiplied, each to the power of its weight. Textures count
only for queries that look like the support, because colours and textures of other scenes were not learned."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from repri.segmenter.look import Seen

__all__ = ["Choice", "as_logs", "blended", "likeness", "raised", "sameness", "weight_for"]

ALIKE, SOFT = 0.56, 0.03
"""Likeness of a query and the support at which textures have half of their weight, and how soft the change is. Two
photographs of one class of PASCAL have 0.42 (median; 0.59 at the 95th percentile), two images of one microscope, field
or surface mostly 0.7 to 0.9."""
USUAL, STEP = 0.25, 0.1
"""Gain on held-out parts that says nothing about other images, and the gain beyond it that counts as much as ``SOFT``
of likeness."""
DOUBT = 0.05
"""Likeness that ``STEP`` less than the usual gain counts for."""
RAISE = 3.0
"""Largest shift of logits by which a class gets more of an image."""
LOWEST = 1 / (1 + math.exp(RAISE))
"""Least probability that such a shift makes 0.5."""
BLOCK = 512
"""Cells of the support that are compared with a query at a time, because large arrays take long to fill."""
FLOOR = 0.001
"""Least probability of an expert, so that none has a veto."""


@dataclass(frozen=True)
class Choice:
    """What was chosen for a support, and why."""

    weight: float = 0.0
    """Weight of the expert on textures, 0 to 1."""
    size: int | None = None
    """Long side in pixels at which the expert on objects looks at images; None: its own."""
    alike: float = ALIKE
    """Likeness to the support at which a query gets half of the weight."""
    refine: str | None = None
    """Refinement of the expert on objects, if another than the segmenter's suits the size of the objects."""
    least: float = 0.0
    """Least proportion that is expected of the only class: half of the smallest in the support."""
    scores: dict[str, float] = field(default_factory=dict)
    """Setting → IoU on held-out parts of the support."""
    parts: str = ""
    """What was held out."""
    logistic: bool = False
    """Whether the expert on objects is a logistic regression on all labelled cells."""
    iou: float = 0.0
    """IoU of the chosen setting on the held-out parts."""

    def __str__(self) -> str:
        objects = f"objects{' by logistic regression' * self.logistic}{f' at {self.size} pixels' * bool(self.size)}"
        if not self.scores:
            return f"{objects}: nothing was compared"
        default = next(iter(self.scores.values()))
        if self.weight == 0 and self.size is None and not self.logistic:
            return f"objects, the default: no setting is clearly better on {self.parts} (IoU {default:.2f})"
        joined = f"{objects} and textures (weight {self.weight:g})" if self.weight else objects
        why = "" if self.iou > default else "; textures count because the support is of one kind"
        return f"{joined}: IoU {self.iou:.2f} on {self.parts}, {default:.2f} with the default{why}"


def as_logs(probability: Tensor) -> Tensor:
    """Probabilities [N, …] of the classes → log-probabilities [N + 1, …], background first."""
    return torch.cat([1 - probability.sum(0, keepdim=True), probability]).clamp_min(FLOOR).log()


def blended(objects: Tensor, textures: Tensor, weight: float) -> Tensor:
    """Probabilities of two experts together: the normalised product of powers.

    Args:
        objects: [N, H, W] probabilities of the classes.
        textures: [N + 1, H, W] log-probabilities, background first.
        weight: Power of the second.

    Returns:
        [N, H, W] probabilities of the classes.

    Example:
        >>> blended(torch.tensor([[[0.5]]]), torch.tensor([0.2, 0.8]).log()[:, None, None], 1.0)
        tensor([[[0.8000]]])
    """
    logs = (1 - weight) * as_logs(objects) + weight * textures.clamp_min(math.log(FLOOR))
    return logs.softmax(0)[1:]


def raised(probability: Tensor, least: float) -> Tensor:
    """Probabilities of one class that are at least 0.5 in some part of the image, as far as a small shift of their
    logits can do that: an image in which nothing resembles the object stays empty.

    Args:
        probability: [1, H, W].
        least: The least part of the image.

    Returns:
        [1, H, W].

    Example:
        >>> raised(torch.tensor([[[0.2, 0.2, 0.01, 0.01]]]), 0.5).round(decimals=2)
        tensor([[[0.5000, 0.5000, 0.0400, 0.0400]]])
    """
    values = probability.flatten()
    count = max(1, round(least * len(values)))
    if int((values >= 0.5).sum()) >= count:
        return probability
    near = values[values >= LOWEST]  # sorting them all takes far longer
    shift = RAISE if len(near) < count else float((-near.topk(count).values[-1].logit(1e-6)).clamp(0, RAISE))
    return (probability.logit(1e-6) + shift).sigmoid()


def likeness(query: Seen, support: Sequence[Tensor]) -> float:
    """How much the textures of a query are those of the support.

    It is the larger of two numbers, both from whitened features of the large cells. The first is the mean over the
    query's cells of the largest cosine with a cell of the support. The second is large where the query and the
    support are images that are each all of one kind, as under a microscope: the smaller :func:`sameness` of the two.

    Args:
        query: The large cells of the query.
        support: K tensors [r, h, w] of whitened features.

    Returns:
        A number of at most 1.
    """
    cells = query.white[:, query.valid]
    rows = [white.flatten(1) for white in support]
    nearest = cells.new_full(cells.shape[1:], -1.0)
    for block in (block for row in rows for block in row.split(BLOCK, 1)):
        torch.maximum(nearest, (block.mT @ cells).amax(0), out=nearest)
    return max(float(nearest.mean()), min(sameness(cells), sum(map(sameness, rows)) / len(rows)))


def sameness(cells: Tensor) -> float:
    """Mean cosine of two cells of an image [r, M], from whitened features: large where it is all of one kind."""
    return float(cells.mean(1).square().sum())


def weight_for(choice: Choice, query: Seen, support: Sequence[Tensor]) -> float:
    """Weight of the expert on textures for a query: the chosen one where the query looks like the support, and less
    where it does not."""
    if choice.weight == 0:
        return 0.0
    return choice.weight / (1 + math.exp((choice.alike - likeness(query, support)) / SOFT))
