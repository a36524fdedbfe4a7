"""θ⁽⁰⁾: the prototypes and the bias before the first step."""

from __future__ import annotations

import torch
from torch import Tensor

from repri.runtime.errors import RepriError

from .backends.passes import Passes, direction, one_more
from .config import InferenceConfig
from .problem import Problem

__all__ = ["initial_background", "initial_bias", "initial_prototype", "known_background"]


def known_background(background: Tensor | None, cfg: InferenceConfig, problem: Problem) -> Tensor | None:
    """The direction [C] of backgrounds in general, of length 1, if ``cfg`` wants it."""
    if cfg.background != "known":
        return None
    channels = problem.query.shape[1]
    if not isinstance(background, Tensor) or background.shape != (channels,):
        got = list(background.shape) if isinstance(background, Tensor) else "nothing"
        raise RepriError(
            f"background='known' starts from the direction of backgrounds in general: give background=, a tensor "
            f"[{channels}], got {got}. Only extractors with a discriminant head know it."
        )
    known = background.detach().to(problem.query.device, problem.dtype)
    if not (known.isfinite().all() and known.any()):
        raise RepriError("background must be finite and not zero")
    return torch.nn.functional.normalize(known, dim=0)


def initial_prototype(problem: Problem, passes: Passes, cfg: InferenceConfig) -> Tensor:
    """w⁽⁰⁾ [T, C] from the support's foreground."""
    w = passes.foreground_sum()
    if cfg.prototype == "foreground":
        fraction = torch.stack([s.foreground.sum() / s.labelled.sum() for s in problem.supports])
        w = w / fraction[:, None]
    w = w.clone(memory_format=torch.contiguous_format)  # the steps work in place
    norms = torch.linalg.vector_norm(w, dim=1)
    if not (norms > 0).all():
        task = int((~(norms > 0)).nonzero()[0])
        raise RepriError(
            f"task {task}: the features under the support foreground are all zero: is the mask on padding?"
        )
    return w


def initial_background(
    problem: Problem, passes: Passes, cfg: InferenceConfig, w: Tensor, known: Tensor | None
) -> Tensor | None:
    """v⁽⁰⁾ [T, C]. A support that shows only the object has no background to start from: then the ``known`` direction
    [C], or else the query's mean, takes its place."""
    if cfg.background == "none":
        return None
    v = passes.background_sum().clone(memory_format=torch.contiguous_format)
    fraction = torch.stack([1 - s.foreground.sum() / s.labelled.sum() for s in problem.supports])[:, None]
    empty = ~(torch.linalg.vector_norm(v, dim=1) > 0)
    v = torch.where(empty[:, None], 0, v / fraction.clamp_min(1e-12))
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


def initial_bias(scores: Tensor, valid: Tensor, shots: Tensor, cfg: InferenceConfig) -> Tensor:
    """b⁽⁰⁾ [T]: the mean of the query's scores [T, h, w] in the unit of b, or a number that depends on ``shots`` [T]
    alone."""
    if cfg.bias_over == "none":
        return cfg.start_bias + cfg.shots_bias * (1 - 1 / shots)
    weight = torch.ones_like(scores) if cfg.bias_over == "all" else valid
    mean = (scores * weight).sum((1, 2)) / weight.sum((1, 2))
    return mean / cfg.temperature if cfg.bias_unit == "cosine" else mean
