"""Gradient descent on CE + λ_H·H + λ_KL·KL(p̂‖π) over the classifier (w, b) of each task (§3.3)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from .backends.build import native_status
from .backends.native import NativePasses
from .backends.passes import Evaluation, Passes, TorchPasses, direction, one_more, safe_log
from .config import InferenceConfig
from .problem import Problem, build_problem

__all__ = ["InferenceResult", "Step", "infer", "perturbed"]


NATIVE_FROM = 2**15
"""Values a query image must have for ``backend="auto"`` to take the compiled kernel, whose rows
are rounded to 16 bits: below, there is little to gain."""


class Step(NamedTuple):
    """What step t saw at θ⁽ᵗ⁾; in ``InferenceResult.history`` every field has one more axis, t, first."""

    ce: Tensor
    """[T]."""
    entropy: Tensor
    """[T] H."""
    kl: Tensor
    """[T] KL(p̂‖π)."""
    loss: Tensor
    """[T] CE + λ_H·H + λ_KL·KL with this step's λ."""
    marginal: Tensor
    """[T] p̂₁."""
    proportion: Tensor
    """[T] π₁ used by this step."""
    prototype: Tensor
    """[T, C] w⁽ᵗ⁾."""
    bias: Tensor
    """[T] b⁽ᵗ⁾."""


@dataclass(frozen=True, eq=False)
class InferenceResult:
    """The classifier of each task after the last step, and what it says of the query."""

    prototype: Tensor
    """[T, C] w."""
    bias: Tensor
    """[T] b, in the unit of ``config.bias_unit``."""
    background: Tensor | None
    """[T, C] v, of configurations with a background prototype."""
    proportion: Tensor
    """[T] π₁: as given, or as estimated last."""
    probability: Tensor
    """[T, h, w] foreground probability of the query."""
    initial_probability: Tensor
    """[T, h, w] the same before the first step."""
    area_weighted: Tensor
    """[T] bool: the support's object was too small for nearest downsampling, so each feature
    cell was labelled by the share of it that the object covers."""
    config: InferenceConfig
    history: Step | None = None
    """Per-step record, if asked for."""

    def _to(self, dtype: torch.dtype) -> InferenceResult:
        if self.bias.dtype == dtype:
            return self
        names = ["prototype", "bias", "proportion", "probability", "initial_probability"]
        names += [] if self.background is None else ["background"]
        history = None if self.history is None else Step(*(x.to(dtype) for x in self.history))
        return replace(self, **{name: getattr(self, name).to(dtype) for name in names}, history=history)

    def logits(self, features: Tensor) -> Tensor:
        """Foreground logits [T, …, h, w] of features [T, …, C, h, w]: the query at another
        resolution, or other images of the same tasks (T may be left out when it is 1)."""
        tasks, channels = self.prototype.shape
        if not isinstance(features, Tensor) or features.ndim < 3 or features.shape[-3] != channels:
            found = list(features.shape) if isinstance(features, Tensor) else type(features).__name__
            raise ValueError(f"features must be a tensor [T, …, C, h, w] with C = {channels}, got {found}")
        if features.ndim > 3 and len(features) != tasks:
            raise ValueError(f"features hold {len(features)} tasks and the classifier {tasks}")
        if features.ndim == 3 and tasks != 1:
            raise ValueError(f"features [C, h, w] fit one task and the classifier holds {tasks}: add the T axis")
        dtype = torch.promote_types(self.prototype.dtype, features.dtype)
        with torch.autocast(features.device.type, enabled=False):
            beta = (self.bias * self.config.bias_slope).to(dtype)
            unit = direction(self.prototype.to(dtype), None if self.background is None else self.background.to(dtype))
            flat = features.detach().flatten(-2).to(dtype)  # [T, …, C, N]
            if features.ndim > 3:
                middle = [1] * (flat.ndim - 3)
                unit = unit.reshape(tasks, *middle, 1, channels)
                beta = beta.reshape(tasks, *middle, 1)
            norm = torch.linalg.vector_norm(flat, dim=-2)
            if not norm.isfinite().all():
                raise ValueError(
                    "features hold NaN or Inf (or values beyond 1e18): check the feature extractor's output"
                )
            cosine = (unit @ flat).squeeze(-2) / torch.where(norm > 0, norm, 1)
            return (self.config.temperature * cosine - beta).unflatten(-1, features.shape[-2:])


def infer(
    support: Tensor | Sequence[Tensor],
    support_masks: Tensor | Sequence[Tensor],
    query: Tensor,
    cfg: InferenceConfig | None = None,
    query_valid: Tensor | None = None,
    proportion: Tensor | Sequence[float] | float | None = None,
    *,
    background: Tensor | None = None,
    history: bool = False,
    callback: Callable[[int, Step], None] | None = None,
    backend: Literal["auto", "torch", "native"] = "auto",
) -> InferenceResult:
    """RePRI for T tasks at once.

    support        [T, K, C, h, w], or a list of T tensors [Kₜ, C, h, w] when tasks differ in K;
                   with one set (T = 1, or an expanded view) for many queries, its pass is shared
    support_masks  [T, K, H, W] or a list alike: 0, 1, soft values in [0, 1], 255 for unlabelled.
                   A shot that is all 255 does not count in K.
    query          [T, C, h, w]
    cfg            hyper-parameters; default ``InferenceConfig.preset("clean")``
    query_valid    bool [T, H, W] or [T, h, w]: pixels that count in H, KL and π; default all
    proportion     [T] (or one number) π₁ known in advance; default: estimated jointly (Eq. 3)
    background     [C] the direction of backgrounds in general, which ``cfg.background="known"`` starts from
    history        keep a record of every step
    callback       called as ``callback(t, step)`` for each step, with what it saw at θ⁽ᵗ⁾
    backend        ``"native"`` needs a C compiler, CPU tensors and not float64; ``"auto"`` takes
                   it where it can, for images of 2¹⁵ feature values or more

    The work is done in float64 if any feature is float64, and for the paper's form of the bias, whose
    steps are so long that rounding to float32 can change the outcome; else in float32.
    """
    cfg = InferenceConfig.preset("clean") if cfg is None else cfg
    if not isinstance(cfg, InferenceConfig):
        raise ValueError(f"cfg must be an InferenceConfig, such as InferenceConfig.preset('clean'), got {cfg!r}")
    if cfg.needs_proportion and proportion is None:
        raise ValueError(
            "this is an oracle's configuration: give proportion=, for example true_proportion(masks, size)"
        )
    precise = cfg.bias_unit == "cosine" and backend != "native"
    problem = build_problem(support, support_masks, query, query_valid, proportion, precise)
    known = _known_background(background, cfg, problem)
    with torch.autocast(problem.query.device.type, enabled=False):
        return _solve(problem, cfg, known, history, callback, backend)._to(problem.result_dtype)


def _known_background(background: Tensor | None, cfg: InferenceConfig, problem: Problem) -> Tensor | None:
    """[C] of length 1, if ``cfg`` wants it."""
    if cfg.background != "known":
        return None
    channels = problem.query.shape[1]
    if not isinstance(background, Tensor) or background.shape != (channels,):
        found = list(background.shape) if isinstance(background, Tensor) else "nothing"
        raise ValueError(
            f"background='known' starts from what the extractor knows of backgrounds: give background=, a tensor "
            f"[{channels}], got {found}; only extractors with a discriminant head have one"
        )
    known = background.detach().to(problem.query.device, problem.dtype)
    if not (known.isfinite().all() and known.any()):
        raise ValueError("background must be finite and not zero")
    return torch.nn.functional.normalize(known, dim=0)


def _solve(
    problem: Problem,
    cfg: InferenceConfig,
    known: Tensor | None,
    history: bool,
    callback: Callable[[int, Step], None] | None,
    backend: str,
) -> InferenceResult:
    passes = _passes(problem, cfg, backend)
    shots = problem.shots
    lambda_h = cfg.transduction / shots if cfg.lambda_h is None else torch.full_like(shots, cfg.lambda_h)
    lambda_kl = cfg.transduction / shots if cfg.lambda_kl is None else torch.full_like(shots, cfg.lambda_kl)

    w = _initial_prototype(problem, passes, cfg)
    v = _initial_background(problem, passes, cfg, w, known)
    scores = passes.query_logits(direction(w, v), torch.zeros_like(shots))
    b = _initial_bias(scores, problem.valid, shots, cfg)
    initial_probability = torch.sigmoid(scores - (b * cfg.bias_slope)[:, None, None])

    updates = cfg.reestimations() if problem.proportion is None and cfg.lambda_kl != 0 else frozenset()
    if problem.proportion is None:
        pi = _marginal(initial_probability, problem.valid)  # [T, 2], background, foreground
    else:
        pi = torch.stack([1 - problem.proportion, problem.proportion], 1)

    records: list[Step] = []
    for t in range(cfg.steps):
        if t == min(updates, default=None):
            lambda_kl = lambda_kl + cfg.kl_increase
        watched = history or callback is not None
        before = (w.clone(), b.clone()) if watched else None
        at_once = t in updates and cfg.schedule == "authors"
        evaluation = passes.step(w, b, v, pi, lambda_h, lambda_kl, at_once, watched)
        if at_once:
            pi = evaluation.marginal.clone(memory_format=torch.contiguous_format)
        if before:
            step = _record(evaluation, lambda_h, lambda_kl, pi, cfg.epsilon, *before)
            if history:
                records.append(step)
            if callback:
                callback(t, step)
        if t in updates and not at_once:
            pi = evaluation.marginal.clone(memory_format=torch.contiguous_format)

    probability = torch.sigmoid(passes.query_logits(direction(w, v), b * cfg.bias_slope))
    if cfg.steps in updates:
        pi = _marginal(probability, problem.valid)
    area = torch.tensor([s.area_weighted for s in problem.supports], device=problem.query.device)
    return InferenceResult(
        prototype=w,
        bias=b,
        background=v,
        proportion=pi[:, 1].clone(),
        probability=probability,
        initial_probability=initial_probability,
        area_weighted=area.expand(len(problem.query)).clone(),
        config=cfg,
        history=Step(*map(torch.stack, zip(*records, strict=True))) if records else None,
    )


def perturbed(proportion: Tensor | Sequence[float] | float, delta: float) -> Tensor:
    """π₁·(1 + δ), kept inside (0, 1): the oracle with a relative size error δ (§4.3).

    >>> perturbed(torch.tensor([0.2, 0.9]), 0.5)
    tensor([0.3000, 1.0000])
    """
    pi = torch.as_tensor(proportion)
    pi = pi if pi.dtype.is_floating_point else pi.float()
    if not math.isfinite(delta):
        raise ValueError(f"delta must be finite, got {delta}")
    edge = torch.finfo(torch.float32).eps
    return (pi * (1 + delta)).clamp(edge, 1 - edge)


def _passes(problem: Problem, cfg: InferenceConfig, backend: str) -> Passes:
    if backend not in ("auto", "torch", "native"):
        raise ValueError(f"backend must be 'auto', 'torch' or 'native', got {backend!r}")
    fits = problem.query.device.type == "cpu" and problem.dtype == torch.float32
    if backend == "native" and not fits:
        raise ValueError(
            f"backend 'native' works on CPU tensors up to float32, got {problem.dtype} on {problem.query.device}"
        )
    large = problem.query[0].numel() >= NATIVE_FROM
    if backend == "native" or (backend == "auto" and fits and large and native_status()[0]):
        return NativePasses(problem, cfg)
    return TorchPasses(problem, cfg)


def _initial_prototype(problem: Problem, passes: Passes, cfg: InferenceConfig) -> Tensor:
    w = passes.foreground_sum()
    if cfg.prototype == "foreground":
        share = torch.stack([s.foreground.sum() / s.labelled.sum() for s in problem.supports])
        w = w / share[:, None]
    w = w.clone(memory_format=torch.contiguous_format)  # the steps work in place
    norms = torch.linalg.vector_norm(w, dim=1)
    if not (norms > 0).all():
        task = int((~(norms > 0)).nonzero()[0])
        raise ValueError(
            f"task {task}: the features under the support foreground are all zero: is the mask on padding?"
        )
    return w


def _initial_background(
    problem: Problem, passes: Passes, cfg: InferenceConfig, w: Tensor, known: Tensor | None
) -> Tensor | None:
    """v⁽⁰⁾ [T, C]; a support that is all object has no background to start from, then what is known [C], or else the
    query's mean, does."""
    if cfg.background == "none":
        return None
    v = passes.background_sum().clone(memory_format=torch.contiguous_format)
    share = torch.stack([1 - s.foreground.sum() / s.labelled.sum() for s in problem.supports])[:, None]
    empty = ~(torch.linalg.vector_norm(v, dim=1) > 0)
    v = torch.where(empty[:, None], 0, v / share.clamp_min(1e-12))
    if known is not None:
        return one_more(v, known, problem.shots[:, None]).contiguous()
    if cfg.background == "both" or empty.any():
        scores = passes.query_logits(direction(w, v), torch.zeros_like(w[:, 0]))
        rest = torch.where(empty[:, None, None], 1.0, torch.sigmoid(-scores)) * problem.valid
        mean = _weighted_mean(problem.query, rest, w.dtype)
        half = 0.5 if cfg.background == "both" else 0.0
        v = torch.where(empty[:, None], mean, (1 - half) * v + half * mean)
    return v.contiguous()


def _weighted_mean(query: Tensor, weight: Tensor, dtype: torch.dtype) -> Tensor:
    """[T, C] mean of the query's unit features [T, C, h, w] under weights [T, h, w]."""
    rows = query.flatten(2).to(dtype)
    norm = torch.linalg.vector_norm(rows, dim=1)
    weight = weight.flatten(1) / weight.sum((1, 2))[:, None].clamp_min(1e-12) / torch.where(norm > 0, norm, 1)
    return (rows @ weight.to(dtype)[..., None])[..., 0]


def _initial_bias(scores: Tensor, valid: Tensor, shots: Tensor, cfg: InferenceConfig) -> Tensor:
    """Mean score over the query, in the unit of b, or what the number of ``shots`` [T] alone says. ``scores`` are those
    without a bias [T, h, w]."""
    if cfg.bias_over == "none":
        return cfg.start_bias + cfg.shots_bias * (1 - 1 / shots)
    weight = torch.ones_like(scores) if cfg.bias_over == "all" else valid
    mean = (scores * weight).sum((1, 2)) / weight.sum((1, 2))
    return mean / cfg.temperature if cfg.bias_unit == "cosine" else mean


def _marginal(probability: Tensor, valid: Tensor) -> Tensor:
    """p̂ [T, 2] over valid pixels."""
    weight = valid / valid.sum((1, 2), keepdim=True)
    return torch.stack([((1 - probability) * weight).sum((1, 2)), (probability * weight).sum((1, 2))], 1)


def _record(
    found: Evaluation, lambda_h: Tensor, lambda_kl: Tensor, pi: Tensor, epsilon: float, w: Tensor, b: Tensor
) -> Step:
    ce, entropy = found.losses.clone().unbind(1)
    kl = (found.marginal * (safe_log(found.marginal) - safe_log(pi + epsilon))).sum(1)
    loss = ce + lambda_h * entropy + lambda_kl * kl
    return Step(ce, entropy, kl, loss, found.marginal[:, 1].clone(), pi[:, 1], w, b)
