"""Gradient descent on CE + λ_H·H + λ_KL·KL(p̂‖π) over the classifier (w, b) of each task (§3.3)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal

import torch
from torch import Tensor

from repri.runtime.errors import RepriError

from .backends.build import native_status
from .backends.native import NativePasses
from .backends.passes import Classifier, Evaluation, Passes, TorchPasses, direction, safe_log
from .config import InferenceConfig
from .problem import Problem, build_problem
from .result import InferenceResult, Step
from .start import initial_background, initial_bias, initial_prototype, known_background

__all__ = ["infer", "perturbed"]

NATIVE_FROM = 2**15
"""Number of feature values of a query from which on ``backend="auto"`` uses the compiled kernel, whose rows
are rounded to 16 bits: below, there is little to gain."""


def infer(
    support: Tensor | Sequence[Tensor],
    support_masks: Tensor | Sequence[Tensor],
    query: Tensor,
    cfg: InferenceConfig | None = None,
    query_valid: Tensor | None = None,
    proportion: Tensor | Sequence[float] | float | None = None,
    *,
    background: Tensor | None = None,
    history: bool | Callable[[int, Step], None] = False,
    backend: Literal["auto", "torch", "native"] = "auto",
) -> InferenceResult:
    """Fit the classifier of T tasks at once (RePRI).

    The work is done in float64 if any feature is float64, and for the paper's form of the bias, whose
    steps are so long that rounding to float32 can change the outcome; else in float32.

    Args:
        support: [T, K, C, h, w], or a list of T tensors [Kₜ, C, h, w] when tasks differ in K. With one set
            (T = 1, or an expanded view) for many queries, its pass is shared.
        support_masks: [T, K, H, W] or a list alike, with values 0, 1, soft values in [0, 1], and 255 for unlabelled.
            A shot that is all 255 does not count in K.
        query: [T, C, h, w].
        cfg: Settings; default ``InferenceConfig.preset("clean")``.
        query_valid: bool [T, H, W] or [T, h, w]: pixels that count in H, KL and π; default all.
        proportion: [T] (or one number) π₁ that is known in advance; default: it is estimated jointly (Eq. 3).
        background: [C] the direction of backgrounds in general, from which ``cfg.background="known"`` starts.
        history: True keeps a record of every step. A function is called as ``history(t, step)`` with each of them too.
        backend: ``"native"`` needs a C compiler, CPU tensors and not float64. ``"auto"`` uses it where it can, for
            images of 2¹⁵ feature values or more.

    Returns:
        The classifiers and their predictions.

    Example:
        >>> support, query = torch.randn(1, 1, 8, 5, 5), torch.randn(1, 8, 5, 5)
        >>> mask = torch.zeros(1, 1, 5, 5)
        >>> mask[..., :2] = 1
        >>> infer(support, mask, query).probability.shape
        torch.Size([1, 5, 5])
    """
    cfg = InferenceConfig.preset("clean") if cfg is None else cfg
    if not isinstance(cfg, InferenceConfig):
        raise RepriError(f"cfg must be an InferenceConfig, such as InferenceConfig.preset('clean'), got {cfg!r}.")
    if cfg.needs_proportion and proportion is None:
        raise RepriError("This is an oracle's configuration: give proportion=, such as true_proportion(masks, size).")
    precise = cfg.bias_unit == "cosine" and backend != "native"
    problem = build_problem(support, support_masks, query, query_valid, proportion, precise)
    known = known_background(background, cfg, problem)
    with torch.autocast(problem.query.device.type, enabled=False):
        return _solve(problem, cfg, known, history, backend).to_dtype(problem.result_dtype)


def _solve(
    problem: Problem,
    cfg: InferenceConfig,
    known: Tensor | None,
    history: bool | Callable[[int, Step], None],
    backend: str,
) -> InferenceResult:
    passes = _passes(problem, cfg, backend)
    shots = problem.shots
    lambda_h = cfg.transduction / shots if cfg.lambda_h is None else torch.full_like(shots, cfg.lambda_h)
    lambda_kl = cfg.transduction / shots if cfg.lambda_kl is None else torch.full_like(shots, cfg.lambda_kl)

    w = initial_prototype(problem, passes, cfg)
    v = initial_background(problem, passes, cfg, w, known)
    scores = passes.query_logits(direction(w, v), torch.zeros_like(shots))
    b = initial_bias(scores, problem.valid, shots, cfg)
    initial_probability = torch.sigmoid(scores - (b * cfg.bias_slope)[:, None, None])

    updates = cfg.reestimations() if problem.proportion is None and cfg.lambda_kl != 0 else frozenset()
    if problem.proportion is None:
        pi = _marginal(initial_probability, problem.valid)  # [T, 2], background, foreground
    else:
        pi = torch.stack([1 - problem.proportion, problem.proportion], 1)

    theta = Classifier(w, b, v)  # which the steps change in place
    records: list[Step] = []
    for t in range(cfg.steps):
        if t == min(updates, default=None):
            lambda_kl = lambda_kl + cfg.kl_increase
        before = (w.clone(), b.clone()) if history else None
        at_once = t in updates and cfg.schedule == "authors"
        evaluation = passes.step(theta, pi, lambda_h, lambda_kl, at_once, bool(history))
        if at_once:
            pi = evaluation.marginal.clone(memory_format=torch.contiguous_format)
        if before:
            step = _record(evaluation, lambda_h, lambda_kl, pi, cfg.epsilon, *before)
            records.append(step)
            if callable(history):
                history(t, step)
        if t in updates and not at_once:
            pi = evaluation.marginal.clone(memory_format=torch.contiguous_format)

    logits = passes.query_logits(direction(w, v), b * cfg.bias_slope)
    probability = torch.sigmoid(logits)
    if cfg.steps in updates:
        pi = _marginal(probability, problem.valid)
    area = torch.tensor([s.area_weighted for s in problem.supports], device=problem.query.device)
    return InferenceResult(
        prototype=w,
        bias=b,
        background=v,
        proportion=pi[:, 1].clone(),
        query_logits=logits,
        probability=probability,
        initial_probability=initial_probability,
        area_weighted=area.expand(len(problem.query)).clone(),
        config=cfg,
        history=Step(*map(torch.stack, zip(*records, strict=True))) if records else None,
    )


def perturbed(proportion: Tensor | Sequence[float] | float, delta: float) -> Tensor:
    """The proportion π₁·(1 + δ), kept inside (0, 1): an oracle with a relative error δ (§4.3).

    Args:
        proportion: π₁, one number or several.
        delta: Relative error δ.

    Returns:
        The perturbed proportions.

    Example:
        >>> perturbed(torch.tensor([0.2, 0.9]), 0.5)
        tensor([0.3000, 1.0000])
    """
    pi = torch.as_tensor(proportion)
    pi = pi if pi.dtype.is_floating_point else pi.float()
    if not math.isfinite(delta):
        raise RepriError(f"delta must be finite, got {delta}")
    edge = torch.finfo(torch.float32).eps
    return (pi * (1 + delta)).clamp(edge, 1 - edge)


def _passes(problem: Problem, cfg: InferenceConfig, backend: str) -> Passes:
    if backend not in ("auto", "torch", "native"):
        raise RepriError(f"backend must be 'auto', 'torch' or 'native', got {backend!r}")
    fits = problem.query.device.type == "cpu" and problem.dtype == torch.float32
    if backend == "native" and not fits:
        raise RepriError(
            f"backend 'native' works on CPU tensors up to float32, got {problem.dtype} on {problem.query.device}"
        )
    large = problem.query[0].numel() >= NATIVE_FROM
    if backend == "native" or (backend == "auto" and fits and large and native_status()[0]):
        return NativePasses(problem, cfg)
    return TorchPasses(problem, cfg)


def _marginal(probability: Tensor, valid: Tensor) -> Tensor:
    """p̂ [T, 2] over valid pixels."""
    weight = valid / valid.sum((1, 2), keepdim=True)
    return torch.stack([((1 - probability) * weight).sum((1, 2)), (probability * weight).sum((1, 2))], 1)


def _record(
    evaluation: Evaluation, lambda_h: Tensor, lambda_kl: Tensor, pi: Tensor, epsilon: float, w: Tensor, b: Tensor
) -> Step:
    ce, entropy = evaluation.losses.clone().unbind(1)
    kl = (evaluation.marginal * (safe_log(evaluation.marginal) - safe_log(pi + epsilon))).sum(1)
    loss = ce + lambda_h * entropy + lambda_kl * kl
    return Step(ce, entropy, kl, loss, evaluation.marginal[:, 1].clone(), pi[:, 1], w, b)
