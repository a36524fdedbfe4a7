"""From tensors as a caller has them to a checked problem: support sets with labels, queries, proportions.

Shapes: T tasks, K shots (each task may have its own), C channels, h×w features, H×W masks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from repri.runtime.errors import RepriError

from .labels import IGNORE, area_labels, check_masks, describe, has_object, nearest_labels

__all__ = ["Problem", "SupportSet", "build_problem"]


class SupportSet(NamedTuple):
    """One labelled set: of one task, or of all tasks of a batch that share it."""

    features: Tensor
    """[K, C, h, w], as the caller gave them (no copy)."""
    foreground: Tensor
    """[K, h, w] foreground label in [0, 1]; 0 where unlabelled."""
    labelled: Tensor
    """[K, h, w] 1 where the label counts, else 0."""
    shots: int
    """K: shots with at least one labelled pixel."""
    area_weighted: bool
    """The object was lost by nearest downsampling and is labelled by area fractions."""


class Problem(NamedTuple):
    """T checked tasks."""

    supports: list[SupportSet]
    """One per task, or a single one that all tasks share."""
    query: Tensor
    """[T, C, h, w]."""
    valid: Tensor
    """[T, h, w] 1 where the query pixel counts in H, KL and π, else 0."""
    proportion: Tensor | None
    """[T] known π₁."""
    dtype: torch.dtype
    """Precision of the computation."""
    result_dtype: torch.dtype
    """Precision of what the caller gets: float64 if any feature is, else float32."""

    @property
    def shots(self) -> Tensor:
        """[T] K of each task."""
        counts = [float(s.shots) for s in self.supports]
        counts = counts * len(self.query) if len(counts) == 1 else counts
        return torch.tensor(counts, dtype=self.dtype, device=self.query.device)


def build_problem(
    support: Tensor | Sequence[Tensor],
    support_masks: Tensor | Sequence[Tensor],
    query: Tensor,
    query_valid: Tensor | None,
    proportion: Tensor | Sequence[float] | float | None,
    precise: bool = False,
) -> Problem:
    """Check everything that can be wrong with a caller's tensors and resize the labels; ``precise`` asks for
    a computation in float64 whatever the features are.

    Non-finite features are left to the backends, which meet every value anyway.
    """
    if not isinstance(query, Tensor) or query.ndim != 4:
        raise RepriError(f"query must be a tensor [T, C, h, w], got {describe(query)}")
    tasks, channels, *size = query.shape
    if query.numel() == 0:
        raise RepriError(f"query is empty: shape {list(query.shape)}")
    _check_float(query, "query")

    pairs = _split_tasks(support, support_masks, tasks)
    if len(pairs) not in (1, tasks):
        raise RepriError(
            f"support holds {len(pairs)} tasks and query {tasks}: give one support set per query, or one for all"
        )
    dtypes = {query.dtype, *(features.dtype for features, _ in pairs)}
    result_dtype = torch.float64 if torch.float64 in dtypes else torch.float32
    dtype = torch.float64 if precise else result_dtype
    return Problem(
        supports=[_build_support(*pair, channels, dtype, query.device, task) for task, pair in enumerate(pairs)],
        query=query.detach(),
        valid=_build_valid(query_valid, tasks, (size[0], size[1]), dtype, query.device),
        proportion=_build_proportion(proportion, tasks, dtype, query.device),
        dtype=dtype,
        result_dtype=result_dtype,
    )


def _split_tasks(
    support: Tensor | Sequence[Tensor], support_masks: Tensor | Sequence[Tensor], tasks: int
) -> list[tuple[Tensor, Tensor]]:
    """[T, K, …] tensors, or sequences of T tensors [Kₜ, …], to T pairs of views."""
    for name, value, rank, shape in (
        ("support", support, 5, "[T, K, C, h, w]"),
        ("support_masks", support_masks, 4, "[T, K, H, W]"),
    ):
        parts = [value] if isinstance(value, Tensor) else list(value) if isinstance(value, (list, tuple)) else None
        expected = rank if isinstance(value, Tensor) else rank - 1
        if parts is None or not all(isinstance(p, Tensor) and p.ndim == expected for p in parts):
            found = describe(value) if parts is None else " and ".join(describe(p) for p in parts[:2]) or "nothing"
            raise RepriError(f"{name} must be a tensor {shape} or a list of T tensors of rank {rank - 1}, got {found}")
    if len(support) != len(support_masks) or len(support) == 0:
        raise RepriError(f"support has {len(support)} tasks and support_masks {len(support_masks)}")
    expanded = isinstance(support, Tensor) and isinstance(support_masks, Tensor) and support.stride(0) == 0
    if (
        expanded and len(support) == tasks and (support_masks == support_masks[:1]).all()
    ):  # one support set, seen T times
        support, support_masks = support[:1], support_masks[:1]
    return list(zip(support, support_masks, strict=True))


def _build_support(
    features: Tensor, masks: Tensor, channels: int, dtype: torch.dtype, device: torch.device, task: int
) -> SupportSet:
    where = f"task {task}"
    if len(features) == 0:
        raise RepriError(f"{where} has no support image (K = 0): give at least one labelled image")
    if len(features) != len(masks):
        raise RepriError(f"{where}: {len(features)} support images but {len(masks)} masks")
    if features.shape[1] != channels:
        raise RepriError(f"{where}: support has {features.shape[1]} channels and query {channels}")
    if features.device != device:
        raise RepriError(f"{where}: support is on {features.device} and query on {device}: move them together")
    if features.numel() == 0 or masks.numel() == 0:
        raise RepriError(f"{where}: empty support, shapes {list(features.shape)} and {list(masks.shape)}")
    _check_float(features, f"{where}: support")
    masks = check_masks(masks.detach().to(device), f"{where}: support mask")

    size = (features.shape[-2], features.shape[-1])
    labels, area_weighted = nearest_labels(masks, size), False
    if not has_object(labels).any():
        if not has_object(masks).any():
            raise RepriError(f"{where}: the support masks hold no foreground pixel (value 1): mark the object in one.")
        labels, area_weighted = area_labels(masks, size), True
    labelled = labels != IGNORE
    foreground = torch.where(labelled, labels, 0).to(dtype)
    labelled = labelled.to(dtype)
    has_label = labelled.flatten(1).any(1)
    if not has_label.all():
        has_label = (masks != IGNORE).flatten(1).any(1)
    shots = int(has_label.sum())
    return SupportSet(features.detach(), foreground, labelled, shots, area_weighted)


def _build_valid(
    valid: Tensor | None, tasks: int, size: tuple[int, int], dtype: torch.dtype, device: torch.device
) -> Tensor:
    if valid is None:
        return torch.ones(tasks, *size, device=device, dtype=dtype)
    if not isinstance(valid, Tensor) or valid.ndim != 3 or len(valid) != tasks or 0 in valid.shape:
        raise RepriError(f"query_valid must be a bool tensor [T, H, W] with T = {tasks}, got {describe(valid)}")
    if valid.dtype != torch.bool:
        raise RepriError(f"query_valid must be bool (True: the pixel counts), got {valid.dtype}")
    kept = nearest_labels(valid.to(device=device), size).to(dtype)
    if not kept.flatten(1).any(1).all():
        task = int((~kept.flatten(1).any(1)).nonzero()[0])
        raise RepriError(f"task {task}: query_valid leaves no query pixel at {size[0]}×{size[1]}")
    return kept


def _build_proportion(
    proportion: Tensor | Sequence[float] | float | None, tasks: int, dtype: torch.dtype, device: torch.device
) -> Tensor | None:
    if proportion is None:
        return None
    try:
        pi = torch.as_tensor(proportion).detach()
        if pi.dtype.is_complex:
            raise TypeError
        pi = pi.to(device=device, dtype=dtype)
    except (TypeError, ValueError, RuntimeError):
        raise RepriError(f"proportion must be a number or a tensor [T], got {describe(proportion)}") from None
    if pi.ndim == 0:
        pi = pi.repeat(tasks)
    if pi.shape != (tasks,):
        raise RepriError(f"proportion must be one number per task, [{tasks}], got shape {list(pi.shape)}")
    if not ((pi > 0) & (pi < 1)).all():
        wrong = pi[~((pi > 0) & (pi < 1))][0].item()
        raise RepriError(f"proportion must lie strictly between 0 and 1, got {wrong:g}")
    return pi


def _check_float(features: Tensor, name: str) -> None:
    if not features.dtype.is_floating_point:
        raise RepriError(f"{name} features must be floating point, got {features.dtype}")
