"""What a gradient step needs from the features, and how plain torch computes it.

With unit rows ẑ, unit prototype ŵ and logit l = τ·ẑ·ŵ − β, the gradient of every term of the
objective is a weighted sum of rows (Eq. 1 differentiated by l, chain rule):

    CE   Σ g·ẑ         g = [(1−y)·p − y·(1−p)] / labelled pixels        over the support
    H    Σ g·ẑ         g = −p(1−p)·l / valid pixels                      over the query
    KL   κ·Σ g·ẑ       g =  p(1−p)   / valid pixels                      over the query

where κ = log(p̂₁/π₁) − log(p̂₀/π₀) is one scalar a task. By cos(z, w), the direction ŵ falls out of
the gradient: ∂L/∂w = (τ/‖w‖)·(G − (G·ŵ)·ŵ) with G the sum of all terms. With a background prototype v the
logit is τ·ẑ·(ŵ − v̂) − β: the same sums, and ∂L/∂v is likewise, with the other sign.

The compiled backend (``native.py``) does the same in a single pass over the rows.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from repri.inference.config import InferenceConfig
from repri.inference.problem import Problem
from repri.runtime.errors import RepriError

__all__ = ["Evaluation", "Passes", "TorchPasses", "direction", "one_more", "support_weights", "unit_vectors"]


def one_more(v: Tensor, known: Tensor, shots: Tensor | float) -> Tensor:
    """Prototypes v [T, C] of so many shots [T, 1], turned as if a direction known [C], of length 1, were one more shot.
    Their length, which decides how fast they turn, stays; where it is 0, v becomes what is known."""
    length = torch.linalg.vector_norm(v, dim=1, keepdim=True)
    length = torch.where(length > 0, length, 1)
    return length * F.normalize(shots * v / length + known, dim=1)


class Evaluation(NamedTuple):
    """What a step found at θ before it moved; a later step may overwrite the tensors."""

    marginal: Tensor
    """[T, 2] p̂, background and foreground."""
    losses: Tensor
    """[T, 2] CE and H; undefined unless asked for."""


class Passes(Protocol):
    """The three ways in which the solver looks at the features."""

    def foreground_sum(self) -> Tensor:
        """[T, C] Σ y·ẑ over the support, divided by the number of labelled pixels."""
        ...

    def background_sum(self) -> Tensor:
        """[T, C] Σ (1 − y)·ẑ over the support, divided by the number of labelled pixels."""
        ...

    def query_logits(self, unit: Tensor, bias: Tensor) -> Tensor:
        """[T, h, w] τ·ẑ·u − β for directions u [T, C] and β [T]."""
        ...

    def step(
        self,
        w: Tensor,
        b: Tensor,
        v: Tensor | None,
        pi: Tensor,
        lambda_h: Tensor,
        lambda_kl: Tensor,
        reestimate: bool,
        losses: bool,
    ) -> Evaluation:
        """One gradient step on w [T, C], b [T] and v [T, C] if there is one, in place, towards π [T, 2] with
        weights λ [T]; ``reestimate`` takes π = p̂ of this very θ instead, ``losses`` asks for CE and H."""
        ...


def support_weights(problem: Problem) -> list[tuple[Tensor, Tensor]]:
    """For each support set, y/n and (1−y)/n [K·h·w] with n its number of labelled pixels."""
    weights = []
    for s in problem.supports:
        count = s.labelled.sum()
        foreground = (s.foreground / count).flatten()
        weights.append((foreground, (s.labelled / count).flatten() - foreground))
    return weights


class TorchPasses:
    """Any device, any float dtype: unit rows are laid out once, then two products a step."""

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
        sums = torch.cat([(fg[:, None] @ rows)[:, 0] for rows, fg, _ in self.supports])
        return sums.expand(len(self.query), -1)

    def background_sum(self) -> Tensor:
        sums = torch.cat([(bg[:, None] @ rows)[:, 0] for rows, _, bg in self.supports])
        return sums.expand(len(self.query), -1)

    def query_logits(self, unit: Tensor, bias: Tensor) -> Tensor:
        logits = self.temperature * (self.query @ unit[..., None])[..., 0] - bias[:, None]
        return logits.unflatten(1, self.size)

    def step(
        self,
        w: Tensor,
        b: Tensor,
        v: Tensor | None,
        pi: Tensor,
        lambda_h: Tensor,
        lambda_kl: Tensor,
        reestimate: bool,
        losses: bool,
    ) -> Evaluation:
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
    """[T, C] at length 1."""
    return w / torch.linalg.vector_norm(w, dim=1, keepdim=True).clamp_min(1e-12)


def direction(w: Tensor, v: Tensor | None) -> Tensor:
    """[T, C] ŵ, or ŵ − v̂: what features are multiplied with."""
    return unit_vectors(w) if v is None else unit_vectors(w) - unit_vectors(v)


def _tangent(gradient: Tensor, w: Tensor) -> Tensor:
    """[T, C] gradient by ŵ → gradient by w: without its part along w, over ‖w‖."""
    unit, length = unit_vectors(w), torch.linalg.vector_norm(w, dim=1, keepdim=True).clamp_min(1e-12)
    return (gradient - torch.linalg.vecdot(gradient, unit)[:, None] * unit) / length


def safe_log(probability: Tensor) -> Tensor:
    """log, finite for saturated values."""
    return probability.clamp_min(torch.finfo(probability.dtype).tiny).log()


def posteriors(logits: Tensor, epsilon: float) -> tuple[Tensor, Tensor]:
    """p and 1 − p of logits; with epsilon > 0 as code does it that subtracts, rounding included."""
    p = torch.sigmoid(logits)
    return p, 1 - p if epsilon > 0 else torch.sigmoid(-logits)


def log_posteriors(logits: Tensor, epsilon: float) -> tuple[Tensor, Tensor]:
    """Their logarithms, log(p + epsilon) if epsilon > 0."""
    if epsilon > 0:
        p, q = posteriors(logits, epsilon)
        return (p + epsilon).log(), (q + epsilon).log()
    return F.logsigmoid(logits), F.logsigmoid(-logits)


def unit_rows(image_sets: list[Tensor], dtype: torch.dtype, name: str, first_task: int) -> Tensor:
    """S sets of images [K, C, h, w] of one shape → rows of unit length [S, K·h·w, C], the only
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


def not_finite_message(name: str, pixels: int) -> str:
    return f"{name} features hold NaN or Inf at {pixels} pixels: check the feature extractor's output"
