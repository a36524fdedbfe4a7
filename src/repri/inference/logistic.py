"""Multinomial logistic regression: a linear classifier that is fitted to all labelled cells until it has converged.

The cross-entropy is convex, and its Hessian is never larger than half of the (weighted) scatter of the features
[Böhning 1992]. One factorisation of that bound serves all steps, so a step costs two products with the features and
needs no step size. Momentum [Nesterov 1983], which starts anew where the loss would rise, makes it fast.
:func:`repri.inference.adapt` then adds the terms of RePRI for each query.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

__all__ = ["LinearClassifier", "fit_logistic"]

NEGLIGIBLE = 2e-3
"""The fit ends when the logits of the labelled cells change by less than this in a step, in the mean."""


class LinearClassifier(NamedTuple):
    """Logits are ``features @ weight + bias``."""

    weight: Tensor
    """[C, N + 1], background first."""
    bias: Tensor
    """[N + 1]."""


def fit_logistic(
    rows: Tensor,
    targets: Tensor,
    counts: Tensor | None = None,
    decay: float = 1e-3,
    balance: float = 0.5,
    steps: int = 150,
) -> LinearClassifier:
    """Fit the classifier.

    It minimises the weighted mean of the cross-entropies plus ``decay`` times the squared weights (not the biases).

    Args:
        rows: [M, C] features of labelled cells.
        targets: [M, N + 1] fractions of each class, background first.
        counts: [M] number of cells that each row stands for; default: one.
        decay: Weight of the squared weights.
        balance: A cell counts as the frequency of its classes to the power of minus this number: 0 counts all cells
            alike, 1 all classes.
        steps: Most steps.

    Returns:
        The classifier.

    Example:
        >>> rows = torch.tensor([[0.0], [1.0], [2.0], [3.0]])
        >>> targets = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
        >>> weight, bias = fit_logistic(rows, targets)
        >>> (rows @ weight + bias).argmax(1).tolist()
        [0, 0, 1, 1]
    """
    x = torch.cat([rows, rows.new_ones(len(rows), 1)], 1)
    mass = _masses(targets, torch.ones(len(rows)) if counts is None else counts, balance)
    weighted = x * mass[:, None]
    reg = torch.full((x.shape[1],), 2 * decay, dtype=x.dtype)
    reg[-1] = 1e-6
    factor = torch.linalg.cholesky(0.5 * (weighted.mT @ x) + reg.diag())
    # Products with a few classes are several times faster if the longer side of each array comes last.
    columns, wanted = x.mT.contiguous(), targets.mT.contiguous()
    theta = velocity = x.new_zeros(len(wanted), x.shape[1])
    logits = ahead = x.new_zeros(wanted.shape)  # of theta, and of velocity
    momentum, total = 1.0, wanted.sum(0)
    for _ in range(steps):
        gradient = (ahead.softmax(0) * total - wanted) @ weighted + reg * velocity
        new = velocity - torch.cholesky_solve(gradient.mT, factor).mT
        change = new - theta
        if float((gradient * change).sum()) > 0:  # the momentum points uphill
            momentum = 1.0
        following = (1 + (1 + 4 * momentum**2) ** 0.5) / 2
        push = (momentum - 1) / following
        moved = new @ columns - logits
        theta, velocity, momentum = new, new + push * change, following
        logits = logits + moved
        ahead = logits + push * moved
        if float((moved.abs() @ mass).sum()) < NEGLIGIBLE:
            break
    return LinearClassifier(theta[:, :-1].mT.contiguous(), theta[:, -1].clone())


def _masses(targets: Tensor, counts: Tensor, balance: float) -> Tensor:
    """[M] weights of the rows; their sum is 1."""
    frequency = (counts @ targets / counts.sum()).clamp_min(1e-6)
    mass = counts * (targets @ frequency.pow(-balance))
    return mass / mass.sum()
