"""The terms of RePRI (Eq. 1) on a linear classifier that another training has made.

:func:`repri.inference.infer` fits its cosine classifier to each task from the start. A classifier that has learned the
support already is only adapted to the query here: the same cross-entropy, entropy and proportion, a few steps from
where it is.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from repri.runtime.errors import RepriError

from .backends.passes import safe_log
from .config import InferenceConfig

__all__ = ["Adapted", "adapt"]


class Adapted(NamedTuple):
    """A classifier after its steps on one query."""

    weight: Tensor
    """[F, N + 1], background first."""
    bias: Tensor
    """[N + 1]."""
    proportion: Tensor
    """[N + 1] π: as given, or as estimated last."""


def adapt(
    weight: Tensor,
    bias: Tensor,
    support: Tensor,
    targets: Tensor,
    query: Tensor,
    config: InferenceConfig,
    proportion: Tensor | None = None,
    shots: int = 1,
) -> Adapted:
    """Adapt a linear classifier to one query.

    A step is divided by the mean squared length of the query's features, so that its size does not depend on their
    scale. With ``config.steps = 0`` the classifier stays as it is.

    Args:
        weight: [F, N + 1] of the classifier, background first.
        bias: [N + 1].
        support: [M, F] features of labelled cells.
        targets: [M, N + 1] fractions of each class.
        query: [P, F] features of the query's cells.
        config: Steps, step size, weights of the terms; λ_H and λ_KL are transduction / K where they are None.
        proportion: [N] known proportions of the classes.
        shots: K.

    Returns:
        The adapted classifier and π.

    Example:
        >>> weight, bias = torch.tensor([[0.0, 1.0]]), torch.zeros(2)
        >>> query = torch.tensor([[3.0], [-3.0], [0.5], [-2.0]])
        >>> config = InferenceConfig.preset("learned").oracle().replace(lr=0.2)
        >>> adapted = adapt(weight, bias, query[:2], torch.eye(2).flip(0), query, config, torch.tensor([0.75]))
        >>> before, after = ((query @ w + b).softmax(1).mean(0)[1] for w, b in ((weight, bias), adapted[:2]))
        >>> bool(abs(after - 0.75) < abs(before - 0.75))
        True
    """
    if config.needs_proportion and proportion is None:
        raise RepriError("These settings need a known proportion: give proportion=.")
    lambda_h = config.transduction / shots if config.lambda_h is None else config.lambda_h
    lambda_kl = config.transduction / shots if config.lambda_kl is None else config.lambda_kl
    updates = config.reestimations() if proportion is None and config.lambda_kl != 0 else frozenset()
    pi = None if proportion is None else torch.cat([(1 - proportion.sum())[None], proportion]).to(query)
    step = config.lr / query.square().sum(1).mean().clamp_min(1e-12)
    # Queries and labelled cells side by side, with the few classes in rows: this is several times faster.
    cells, count, wanted = torch.cat([query, support]).mT.contiguous(), len(query), targets.mT.contiguous()
    for t in range(config.steps):
        if t == min(updates, default=None):
            lambda_kl += config.kl_increase
        both = torch.addmm(bias[:, None], weight.mT, cells).softmax(0)
        p, known = both[:, :count], both[:, count:]
        marginal = p.mean(1)
        if pi is None or t in updates:
            pi = marginal
        inner = -lambda_h * safe_log(p) + lambda_kl * (safe_log(marginal) - safe_log(pi))[:, None]
        g_query = p * (inner - (p * inner).sum(0)) / count
        g_support = (known * wanted.sum(0) - wanted) / len(support)
        gradient = torch.cat([g_query, g_support], 1)
        weight = weight - step * (cells @ gradient.mT)
        bias = bias - config.lr * gradient.sum(1)
    if pi is None:
        pi = torch.addmm(bias, query, weight).softmax(1).mean(0)
    return Adapted(weight, bias, pi)
