"""The sums over the features that a gradient step needs, and how plain torch computes them.

With unit rows ẑ, unit prototype ŵ and logit l = τ·ẑ·ŵ − β, the gradient of every term of the
objective is a weighted sum of rows (Eq. 1 differentiated by l, chain rule):

    CE   Σ g·ẑ         g = [(1−y)·p − y·(1−p)] / labelled cells         over the support
    H    Σ g·ẑ         g = −p(1−p)·l / valid cells                       over the query
    KL   κ·Σ g·ẑ       g =  p(1−p)   / valid cells                       over the query

where κ = log(p̂₁/π₁) − log(p̂₀/π₀) is one scalar per task. Because l depends on cos(z, w), the gradient has no
part along ŵ: ∂L/∂w = (τ/‖w‖)·(G − (G·ŵ)·ŵ) with G the sum of all terms. With a background prototype v the
logit is τ·ẑ·(ŵ − v̂) − β. The sums are the same then, and ∂L/∂v follows like ∂L/∂w, with the other sign.

The compiled backend (``native.py``) computes the same in a single pass over the rows.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from repri.inference.config import InferenceConfig
from repri.inference.problem import Problem
from repri.runtime.errors import RepriError

__all__ = [
    "Classifier",
    "Evaluation",
    "Passes",
    "TorchPasses",
    "direction",
    "one_more",
    "safe_log",
    "support_weights",
    "unit_vectors",
]


def one_more(v: Tensor, known: Tensor, shots: Tensor | float) -> Tensor:
    """Turn prototypes as if a known direction were one more shot.

    Args:
        v: Prototypes [T, C]. Their length, which decides how fast the steps turn them, stays.
        known: The direction [C], of length 1. It replaces prototypes of length 0.
        shots: Number of shots [T, 1] that the prototypes come from.

    Returns:
        The turned prototypes [T, C].

    Example:
        >>> one_more(torch.tensor([[2.0, 0.0]]), torch.tensor([0.0, 1.0]), 1)
        tensor([[1.4142, 1.4142]])
    """
    length = torch.linalg.vector_norm(v, dim=1, keepdim=True)
    length = torch.where(length > 0, length, 1)
    return length * F.normalize(shots * v / length + known, dim=1)


class Classifier(NamedTuple):
    """θ of T tasks. A step changes the tensors in place."""

    w: Tensor
    """[T, C] prototype."""
    b: Tensor
    """[T] bias."""
    v: Tensor | None
    """[T, C] background prototype, if there is one."""


class Evaluation(NamedTuple):
    """Values of a step at θ before it moved; a later step may overwrite the tensors."""

    marginal: Tensor
    """[T, 2] p̂, background and foreground."""
    losses: Tensor
    """[T, 2] CE and H; undefined unless asked for."""


class Passes(Protocol):
    """The ways in which the solver looks at the features."""

    def foreground_sum(self) -> Tensor:
        """[T, C] Σ y·ẑ over the support, divided by the number of labelled cells."""
        ...

    def background_sum(self) -> Tensor:
        """[T, C] Σ (1 − y)·ẑ over the support, divided by the number of labelled cells."""
        ...

    def query_logits(self, unit: Tensor, bias: Tensor) -> Tensor:
        """[T, h, w] τ·ẑ·u − β for directions u [T, C] and β [T]."""
        ...

    def step(
        self, theta: Classifier, pi: Tensor, lambda_h: Tensor, lambda_kl: Tensor, reestimate: bool, losses: bool
    ) -> Evaluation:
        """Make one gradient step.

        Args:
            theta: The classifiers, which are changed in place.
            pi: [T, 2] π, background and foreground.
            lambda_h: [T] λ_H.
            lambda_kl: [T] λ_KL.
            reestimate: Use π = p̂ of this very θ instead of ``pi``.
            losses: Compute CE and H too.

        Returns:
            Values at θ before the step.
        """
        ...


def support_weights(problem: Problem) -> list[tuple[Tensor, Tensor]]:
    """For each support set, y/n and (1−y)/n [K·h·w] with n its number of labelled cells."""
    weights = []
    for s in problem.supports:
        count = s.labelled.sum()
        foreground = (s.foreground / count).flatten()
        weights.append((foreground, (s.labelled / count).flatten() - foreground))
    return weights


class TorchPasses:
    """Passes for any device and any float dtype: unit rows are laid out once, then a step takes two products.

    Args:
        problem: The tasks.
        cfg: Settings of the inference.

    Raises:
        RepriError: Features are not finite.
    """

    def __init__(self, problem: Problem, cfg: InferenceConfig):
        dtype = problem.dtype
        self.size = problem.query.shape[-2:]
        self.cfg, self.temperature, self.epsilon = cfg, cfg.temperature, cfg.epsilon
        self.query = unit_rows([image[None] for image in problem.query], dtype, "query", 0)  # [T, N, C]
        self.query_weight = (problem.valid / problem.valid.sum((1, 2), keepdim=True)).flatten(1)  # [T, N]

        # Supports of one shape are stacked into one product; ragged ones take a product each.
        sets, weights = [s.features for s in problem.supports], support_weights(problem)
        stacked = len({s.shape for s in sets}) == 1
        groups = [slice(0, len(sets))] if stacked else [slice(i, i + 1) for i in range(len(sets))]
        self.supports = []
        for group in groups:
            fg, bg = (torch.stack(side) for side in zip(*weights[group], strict=True))
            rows = unit_rows(sets[group], dtype, "support", group.start)
            self.supports.append((rows, fg, bg))  # [S, K·N, C], [S, K·N], [S, K·N]

    def foreground_sum(self) -> Tensor:
        """See ``Passes``."""
        sums = torch.cat([(fg[:, None] @ rows)[:, 0] for rows, fg, _ in self.supports])
        return sums.expand(len(self.query), -1)

    def background_sum(self) -> Tensor:
        """See ``Passes``."""
        sums = torch.cat([(bg[:, None] @ rows)[:, 0] for rows, _, bg in self.supports])
        return sums.expand(len(self.query), -1)

    def query_logits(self, unit: Tensor, bias: Tensor) -> Tensor:
        """See ``Passes``."""
        logits = self.temperature * (self.query @ unit[..., None])[..., 0] - bias[:, None]
        return logits.unflatten(1, self.size)

    def step(
        self, theta: Classifier, pi: Tensor, lambda_h: Tensor, lambda_kl: Tensor, reestimate: bool, losses: bool
    ) -> Evaluation:
        """See ``Passes``."""
        w, b, v = theta
        unit = direction(w, v)
        vectors, scalars, evaluation = self._sums(unit, b * self.cfg.bias_slope, losses)
        marginal = evaluation.marginal
        log_ratio = safe_log(marginal) - safe_log((marginal if reestimate else pi) + self.epsilon)
        kappa = log_ratio[:, 1] - log_ratio[:, 0]
        terms = torch.stack([torch.ones_like(kappa), lambda_h, lambda_kl * kappa], 1)  # [T, 3]
        gradient = torch.bmm(terms[:, None], vectors)[:, 0]  # [T, C]
        rate = self.cfg.lr * self.temperature
        w -= rate * _tangent(gradient, w)
        if v is not None:
            v += rate * _tangent(gradient, v)
        b += (self.cfg.lr * self.cfg.bias_slope) * torch.linalg.vecdot(terms, scalars)
        return evaluation

    def _sums(self, unit: Tensor, bias: Tensor, losses: bool) -> tuple[Tensor, Tensor, Evaluation]:
        """Σ g·ẑ [T, 3, C] and Σ g [T, 3] of CE, H and p̂, and the values that come with them."""
        e, values = self.epsilon, torch.zeros(len(unit), 2, dtype=unit.dtype, device=unit.device)
        ce_vectors, ce_scalars = [], []
        start = 0
        for rows, fg, bg in self.supports:
            tasks = len(unit) if len(self.supports) == 1 else len(rows)
            mine = slice(start, start := start + tasks)
            # [S, M, C]: S support sets, each with the M classifiers that share it
            classifiers = unit[mine].unflatten(0, (len(rows), -1))
            logits = self.temperature * (classifiers @ rows.mT) - bias[mine].unflatten(0, (len(rows), -1))[..., None]
            p, q = posteriors(logits, e)
            fg, bg = fg[:, None], bg[:, None]
            g = p * q * (bg / (q + e) - fg / (p + e)) if e > 0 else bg * p - fg * q
            ce_vectors.append((g @ rows).flatten(0, 1))
            ce_scalars.append(g.sum(-1).flatten())
            if losses:
                log_p, log_q = log_posteriors(logits, e)
                values[mine, 0] = -(fg * log_p + bg * log_q).sum(-1).flatten()

        logits = self.query_logits(unit, bias).flatten(1)
        v, (p, q) = self.query_weight, posteriors(logits, e)
        g_p = v * p * q
        if losses or e > 0:
            log_p, log_q = log_posteriors(logits, e)
            values[:, 1] = -(v * (p * log_p + q * log_q)).sum(-1)
            g_h = g_p * (log_q - log_p + q / (q + e) - p / (p + e)) if e > 0 else -g_p * logits
        else:
            g_h = -g_p * logits
        g = torch.stack([g_h, g_p], 1)  # [T, 2, N]
        vectors = torch.cat([torch.cat(ce_vectors)[:, None], g @ self.query], 1)
        scalars = torch.cat([torch.cat(ce_scalars)[:, None], g.sum(-1)], 1)
        marginal = torch.stack([(v * q).sum(-1), (v * p).sum(-1)], 1)
        return vectors, scalars, Evaluation(marginal, values)


def unit_vectors(w: Tensor) -> Tensor:
    """The vectors [T, C] at length 1."""
    return w / torch.linalg.vector_norm(w, dim=1, keepdim=True).clamp_min(1e-12)


def direction(w: Tensor, v: Tensor | None) -> Tensor:
    """The vectors [T, C] that features are multiplied with: ŵ, or ŵ − v̂."""
    return unit_vectors(w) if v is None else unit_vectors(w) - unit_vectors(v)


def _tangent(gradient: Tensor, w: Tensor) -> Tensor:
    """The gradient by w [T, C] from that by ŵ: without its part along w, over ‖w‖."""
    unit, length = unit_vectors(w), torch.linalg.vector_norm(w, dim=1, keepdim=True).clamp_min(1e-12)
    return (gradient - torch.linalg.vecdot(gradient, unit)[:, None] * unit) / length


def safe_log(probability: Tensor) -> Tensor:
    """The logarithm, finite for saturated values."""
    return probability.clamp_min(torch.finfo(probability.dtype).tiny).log()


def posteriors(logits: Tensor, epsilon: float) -> tuple[Tensor, Tensor]:
    """p and 1 − p of logits. With epsilon > 0, 1 − p is a subtraction with its rounding, as in the authors' code."""
    p = torch.sigmoid(logits)
    return p, 1 - p if epsilon > 0 else torch.sigmoid(-logits)


def log_posteriors(logits: Tensor, epsilon: float) -> tuple[Tensor, Tensor]:
    """The logarithms of p and 1 − p; log(p + epsilon) if epsilon > 0."""
    if epsilon > 0:
        p, q = posteriors(logits, epsilon)
        return (p + epsilon).log(), (q + epsilon).log()
    return F.logsigmoid(logits), F.logsigmoid(-logits)


def unit_rows(image_sets: list[Tensor], dtype: torch.dtype, name: str, first_task: int) -> Tensor:
    """Turn S sets of images [K, C, h, w] of one shape into rows of unit length [S, K·h·w, C], the only
    copy of the features that is made. A zero row stays zero."""
    shots, channels, h, w = image_sets[0].shape
    rows = torch.empty(len(image_sets), shots, h * w, channels, dtype=dtype, device=image_sets[0].device)
    for row, images in zip(rows, image_sets, strict=True):
        row.copy_(images.flatten(2).mT)
    norm = torch.linalg.vector_norm(rows, dim=-1, keepdim=True)
    if not norm.isfinite().all() or norm.amin() < 1e-15:  # not finite, zero, or the squares over- or underflowed
        bad = (~rows.isfinite().all(-1)).flatten(1).sum(1)
        if bad.any():
            task = int(bad.nonzero()[0])
            raise RepriError(not_finite_message(f"task {first_task + task}: {name}", int(bad[task])))
        largest = rows.abs().amax(-1, keepdim=True)
        rows.div_(torch.where(largest > 0, largest, 1))
        norm = torch.linalg.vector_norm(rows, dim=-1, keepdim=True)
    return rows.div_(torch.where(norm > 0, norm, 1)).flatten(1, 2)


def not_finite_message(name: str, cells: int) -> str:
    """The sentence about ``name`` that both backends raise."""
    return f"{name} features hold NaN or Inf at {cells} cells: check the feature extractor's output"
