"""Several classes at once: one softmax over a background and N objects, under the objective of §3.3.

    logits  l₀ = τ·cos(z, v),  lₙ = τ·cos(z, wₙ) − bₙ,  p = softmax(l)
    minimise CE + λ_H·H + λ_KL·KL(p̂‖π) over v, wₙ, bₙ, with p̂ and π over all N + 1

For N = 1 this is ``infer`` with a background prototype: l₁ − l₀ is its logit. The gradient by a logit is

    CE  p − y    H  −p·(log p − Σ p·log p)    KL  p·(κ − Σ p·κ),  κ = log(p̂ / π)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from repri.runtime.errors import RepriError

from .backends.passes import one_more, safe_log
from .config import InferenceConfig
from .labels import IGNORE, area_labels, nearest_labels

__all__ = ["JointResult", "infer_joint"]


@dataclass(frozen=True, eq=False)
class JointResult:
    """The classifiers of several classes, and their predictions."""

    prototypes: Tensor
    """[T, N + 1, C]: v, then w₁ … w_N."""
    bias: Tensor
    """[T, N + 1]: 0, then b₁ … b_N."""
    proportion: Tensor
    """[T, N + 1] π: as given, or as estimated last."""
    probability: Tensor
    """[T, N + 1, h, w] of the query, background first."""
    config: InferenceConfig

    def probabilities(self, features: Tensor) -> Tensor:
        """[T, N + 1, h, w] of other features [T, C, h, w] of the same tasks."""
        rows = _unit(features.flatten(2).mT.to(self.prototypes.dtype))
        return _posterior(rows, self.prototypes, self.bias, self.config.temperature).mT.unflatten(
            2, (features.shape[-2], features.shape[-1])
        )


def infer_joint(
    support: Tensor,
    labels: Tensor,
    query: Tensor,
    classes: int,
    cfg: InferenceConfig | None = None,
    query_valid: Tensor | None = None,
    proportion: Tensor | Sequence[float] | None = None,
    background: Tensor | None = None,
) -> JointResult:
    """Fit N classes at once in T queries that share one support set.

    λ = transduction / K, where K is the mean number of support images that show a class.

    Args:
        support: [K, C, h, w] features.
        labels: [K, H, W] with 0 background, 1 … N, 255 unlabelled; every class must be there.
        query: [T, C, h, w].
        classes: N.
        cfg: Settings with a background prototype, as the default ``clean`` has.
        query_valid: bool [T, H, W]: pixels that count in H, KL and π.
        proportion: [N] or [T, N]: proportion of each class, if it is known in advance.
        background: [C] direction of backgrounds in general, for ``cfg.background="known"``.

    Returns:
        The classifiers and their predictions.
    """
    cfg = InferenceConfig.preset("clean") if cfg is None else cfg
    _check(support, labels, query, cfg)
    size, cells = (support.shape[-2], support.shape[-1]), (query.shape[-2], query.shape[-1])
    y = _one_hot(labels, classes, size)  # [M, N + 1], rows of zeros where unlabelled
    z = _unit(support.float().flatten(2).mT.flatten(0, 1))  # [M, C]
    q = _unit(query.float().flatten(2).mT)  # [T, P, C]
    valid = torch.ones(len(q), q.shape[1], device=q.device)
    if query_valid is not None:
        valid = nearest_labels(query_valid, cells).float().flatten(1).to(q.device)
    weight = valid / valid.sum(1, keepdim=True)

    shown = (y.unflatten(0, (len(support), -1)).sum(1)[:, 1:] > 0).sum() / classes
    lambda_h = float(cfg.transduction / shown) if cfg.lambda_h is None else cfg.lambda_h
    lambda_kl = float(cfg.transduction / shown) if cfg.lambda_kl is None else cfg.lambda_kl
    theta, b = _start(z, y, q, weight, cfg), q.new_zeros(len(q), classes + 1)
    b[:, 1:] = cfg.start_bias + cfg.shots_bias * (1 - 1 / shown)
    if cfg.background == "known":
        if background is None:
            raise RepriError("background='known' starts from the direction of backgrounds: give background=.")
        theta[:, 0] = one_more(theta[:, 0], F.normalize(background.to(q), dim=0), float(shown))
    pi = _known(proportion, len(q), classes, q.device) if proportion is not None else None
    updates = cfg.reestimations() if pi is None and cfg.lambda_kl != 0 else frozenset()
    if pi is None:
        pi = (weight[..., None] * _posterior(q, theta, b, cfg.temperature)).sum(1)

    for t in range(cfg.steps):
        if t == min(updates, default=None):
            lambda_kl += cfg.kl_increase
        p = _posterior(q, theta, b, cfg.temperature)  # [T, P, N + 1]
        marginal = (weight[..., None] * p).sum(1)
        if t in updates and cfg.schedule == "authors":
            pi = marginal
        inner = -lambda_h * safe_log(p) + lambda_kl * (safe_log(marginal) - safe_log(pi))[:, None]
        g_query = weight[..., None] * p * (inner - (p * inner).sum(-1, keepdim=True))
        g_support = (_posterior(z, theta, b, cfg.temperature) * y.sum(1)[:, None] - y) / y.sum()  # [T, M, N + 1]
        if t in updates and cfg.schedule != "authors":
            pi = marginal
        gradient = g_query.mT @ q + g_support.mT @ z  # [T, N + 1, C]
        theta, b = _stepped(theta, b, gradient, g_query.sum(1) + g_support.sum(1), cfg)
    p = _posterior(q, theta, b, cfg.temperature)
    if cfg.steps in updates:
        pi = (weight[..., None] * p).sum(1)
    return JointResult(theta, b, pi, p.mT.unflatten(2, cells), cfg)


def _check(support: Tensor, labels: Tensor, query: Tensor, cfg: InferenceConfig) -> None:
    """Refuse settings and shapes that several classes at once cannot have."""
    if cfg.background == "none" or cfg.bias_over != "none" or cfg.bias_unit != "logit" or cfg.epsilon > 0:
        raise RepriError(
            "Several classes at once need settings like those of 'clean': a background prototype and b⁰ = 0."
        )
    if support.ndim != 4 or labels.ndim != 3 or query.ndim != 4 or len(support) != len(labels):
        raise RepriError(
            f"support [K, C, h, w], labels [K, H, W] and query [T, C, h, w] do not fit together: "
            f"{list(support.shape)}, {list(labels.shape)}, {list(query.shape)}"
        )
    if support.shape[1] != query.shape[1]:
        raise RepriError(f"support has {support.shape[1]} channels and query {query.shape[1]}")


def _stepped(
    theta: Tensor, b: Tensor, gradient: Tensor, bias_gradient: Tensor, cfg: InferenceConfig
) -> tuple[Tensor, Tensor]:
    """Prototypes and biases after one step; the gradient by a prototype has no part along it, and b₀ stays 0."""
    unit, length = F.normalize(theta, dim=-1), theta.norm(dim=-1, keepdim=True).clamp_min(1e-12)
    tangent = (gradient - (gradient * unit).sum(-1, keepdim=True) * unit) / length
    b = b + cfg.lr * bias_gradient
    b[:, 0] = 0
    return theta - cfg.lr * cfg.temperature * tangent, b


def _start(z: Tensor, y: Tensor, q: Tensor, weight: Tensor, cfg: InferenceConfig) -> Tensor:
    """[T, N + 1, C]: means of the classes' rows; v as ``cfg.background`` says, and the query's mean if there is no
    background in the support."""
    means = (y.mT @ z) / y.sum(0)[:, None].clamp_min(1e-12)
    theta = means.expand(len(q), -1, -1).clone()
    empty = bool(y[:, 0].sum() == 0)
    if cfg.background == "both" or empty:
        rest = (
            weight if empty else weight * _posterior(q, theta, q.new_zeros(len(q), y.shape[1]), cfg.temperature)[..., 0]
        )
        mean = (rest[:, None] @ q)[:, 0] / rest.sum(1, keepdim=True).clamp_min(1e-12)
        theta[:, 0] = mean if empty else (theta[:, 0] + mean) / 2
    return theta


def _posterior(rows: Tensor, theta: Tensor, b: Tensor, temperature: float) -> Tensor:
    """[T, M, N + 1] of unit rows [M, C] or [T, M, C]."""
    return (temperature * rows @ F.normalize(theta, dim=-1).mT - b[:, None]).softmax(-1)


def _unit(rows: Tensor) -> Tensor:
    if not rows.isfinite().all():
        raise RepriError("features hold NaN or Inf: check the feature extractor's output")
    return F.normalize(rows, dim=-1, eps=1e-20)


def _one_hot(labels: Tensor, classes: int, size: tuple[int, int]) -> Tensor:
    """[K·h·w, N + 1] at feature size. A class that nearest downsampling loses everywhere is labelled in the cells
    that hold most of it."""
    wrong = (labels != IGNORE) & ((labels < 0) | (labels > classes))
    if wrong.any():
        raise RepriError(f"The labels must be 0 … {classes} or 255, got {int(labels[wrong][0])}.")
    ids = nearest_labels(labels, size).clone()
    for n in range(1, classes + 1):
        if not (ids == n).any():
            area = area_labels((labels == n).to(torch.uint8), size)
            if not area.any():
                raise RepriError(f"Class {n} is nowhere in the support labels: mark it in at least one image.")
            ids[area == area.amax()] = n
    return torch.stack([(ids == n).float() for n in range(classes + 1)], -1).flatten(0, 2)


def _known(proportion: Tensor | Sequence[float], tasks: int, classes: int, device: torch.device) -> Tensor:
    """[T, N + 1] of known proportions."""
    known = torch.as_tensor(proportion, dtype=torch.float32, device=device)
    if known.shape not in ((classes,), (tasks, classes)):
        raise RepriError(f"proportion must hold one number for each of {classes} classes, got {list(known.shape)}")
    known = known.expand(tasks, classes)
    rest = 1 - known.sum(1, keepdim=True)
    if not ((known > 0).all() and (rest > 0).all()):
        raise RepriError("Every proportion must be above 0, and their sum below 1.")
    return torch.cat([rest, known], 1)
