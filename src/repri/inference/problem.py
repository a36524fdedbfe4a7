"""From tensors as a caller has them to a checked, flat problem: rows, labels, weights.

Shapes: T tasks, K shots (each task may have its own), C channels, h×w features, H×W masks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = [
    "IGNORE",
    "Problem",
    "SupportSet",
    "build_problem",
    "on_one_grid",
    "resize_labels",
    "shot_labels",
    "stack_shots",
    "true_proportion",
]

IGNORE = 255
"""Mask value of pixels without a label."""


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


def resize_labels(masks: Tensor, size: tuple[int, int], dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    """Masks [N, H, W] (0, 1, 255 or soft values in [0, 1]) → foreground and labelled weights,
    [N, h, w], by nearest downsampling."""
    if masks.shape[-2:] != size:
        rows, columns = (_nearest_index(n, m, masks.device) for n, m in zip(masks.shape[-2:], size, strict=True))
        masks = masks[:, rows][:, :, columns]
    labelled = masks != IGNORE
    return torch.where(labelled, masks, 0).to(dtype), labelled.to(dtype)


def area_labels(masks: Tensor, size: tuple[int, int], dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    """The same by area: a cell's label is the mean over its labelled pixels."""
    labelled = masks != IGNORE
    foreground = F.adaptive_avg_pool2d(torch.where(labelled, masks, 0).to(dtype)[None], size)[0]
    share = F.adaptive_avg_pool2d(labelled.to(dtype)[None], size)[0]
    return foreground / share.clamp_min(1e-12), (share > 0).to(dtype)


def true_proportion(masks: Tensor, size: Sequence[int]) -> Tensor:
    """π*₁ […] of masks […, H, W] at feature size (h, w), unlabelled pixels left out (Eq. 4).

    An object that nearest downsampling loses is measured by area, so that π* > 0 whenever
    there is an object.

    >>> true_proportion(torch.tensor([[[0, 1], [255, 1]]]), (2, 2))
    tensor([0.6667])
    """
    if not isinstance(masks, Tensor) or masks.ndim < 2 or masks.numel() == 0:
        raise ValueError(f"true_proportion takes a tensor of masks […, H, W], got {_describe(masks)}")
    if not isinstance(size, Sequence) or len(size) != 2 or not all(isinstance(n, int) and n >= 1 for n in size):
        raise ValueError(f"size must be two integers (h, w), h, w ≥ 1, got {size!r}")
    cells = (size[0], size[1])
    flat = check_masks(masks.detach().reshape(-1, *masks.shape[-2:]), "masks")
    foreground, labelled = resize_labels(flat, cells)
    lost = (foreground.sum((1, 2)) == 0) & (torch.where(flat != IGNORE, flat, 0) > 0).any(-1).any(-1)
    if lost.any():
        foreground[lost], labelled[lost] = area_labels(flat[lost], cells)
    count = labelled.sum((1, 2))
    if (count == 0).any():
        index = int((count == 0).nonzero()[0])
        raise ValueError(f"mask {index} has no labelled pixel at {cells[0]}×{cells[1]}: its proportion is undefined")
    return (foreground.sum((1, 2)) / count).reshape(masks.shape[:-2])


def stack_shots(features: Sequence[Tensor], masks: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Shots of different shapes as one support set: K features [C, hₖ, wₖ] and masks [Hₖ, Wₖ] → [K, C, h, w]
    and labels [K, h, w] at feature size, unlabelled where a shot has no cell."""
    sizes = [(f.shape[-2], f.shape[-1]) for f in features]
    labels = [shot_labels(mask, size) for mask, size in zip(masks, sizes, strict=True)]
    if not any(((label > 0) & (label != IGNORE)).any() for label in labels):
        labels = [shot_labels(mask, size, area_labels) for mask, size in zip(masks, sizes, strict=True)]
    return on_one_grid(features), on_one_grid(labels, IGNORE)


def on_one_grid(maps: Sequence[Tensor], rest: float = 0) -> Tensor:
    """Maps [..., hᵢ, wᵢ] → [T, ..., h, w] of the largest sides, ``rest`` where one has no cell."""
    height, width = (max(m.shape[axis] for m in maps) for axis in (-2, -1))
    grid = maps[0].new_full((len(maps), *maps[0].shape[:-2], height, width), rest)
    for place, m in zip(grid, maps, strict=True):
        place[..., : m.shape[-2], : m.shape[-1]] = m
    return grid


def shot_labels(
    mask: Tensor, size: tuple[int, int], reduce: Callable[..., tuple[Tensor, Tensor]] = resize_labels
) -> Tensor:
    """[h, w] labels at feature size of a mask [H, W], 255 where there is none; one of that size stays as it is."""
    foreground, labelled = reduce(check_masks(mask, "support mask")[None], size)
    return torch.where(labelled > 0, foreground, IGNORE)[0]


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
        raise ValueError(f"query must be a tensor [T, C, h, w], got {_describe(query)}")
    tasks, channels, *size = query.shape
    if query.numel() == 0:
        raise ValueError(f"query is empty: shape {list(query.shape)}")
    _check_float(query, "query")

    pairs = _split_tasks(support, support_masks, tasks)
    if len(pairs) not in (1, tasks):
        raise ValueError(
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


def check_masks(masks: Tensor, name: str) -> Tensor:
    """Masks with values other than 0, 1, 255 (or [0, 1] and 255 for floats) are an error."""
    if masks.dtype == torch.bool:
        return masks.to(torch.uint8)
    if masks.dtype.is_complex:
        raise ValueError(f"{name} must hold numbers, got {masks.dtype}")
    if not masks.dtype.is_floating_point and masks.dtype != torch.uint8:
        masks = masks.to(torch.int64)  # torch cannot compare the larger unsigned types
    if masks.dtype.is_floating_point:
        wrong = ~((masks >= 0) & (masks <= 1)) & (masks != IGNORE)  # NaN is wrong too
        allowed = "in [0, 1], or 255"
    else:
        wrong = masks + 1 > 2 if masks.dtype == torch.uint8 else ((masks > 1) & (masks != IGNORE)) | (masks < 0)
        allowed = "0, 1 or 255"
    if wrong.any():
        value = masks[wrong][0].item()
        raise ValueError(f"{name} has the value {value:g}: mask values must be {allowed} (255: unlabelled)")
    return masks if masks.dtype.is_floating_point else masks.to(torch.uint8)


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
            found = _describe(value) if parts is None else " and ".join(_describe(p) for p in parts[:2]) or "nothing"
            raise ValueError(f"{name} must be a tensor {shape} or a list of T tensors of rank {rank - 1}, got {found}")
    if len(support) != len(support_masks) or len(support) == 0:
        raise ValueError(f"support has {len(support)} tasks and support_masks {len(support_masks)}")
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
        raise ValueError(f"{where} has no support image (K = 0): give at least one labelled image")
    if len(features) != len(masks):
        raise ValueError(f"{where}: {len(features)} support images but {len(masks)} masks")
    if features.shape[1] != channels:
        raise ValueError(f"{where}: support has {features.shape[1]} channels and query {channels}")
    if features.device != device:
        raise ValueError(f"{where}: support is on {features.device} and query on {device}: move them together")
    if features.numel() == 0 or masks.numel() == 0:
        raise ValueError(f"{where}: empty support, shapes {list(features.shape)} and {list(masks.shape)}")
    _check_float(features, f"{where}: support")
    masks = check_masks(masks.detach().to(device), f"{where}: support mask")

    size = (features.shape[-2], features.shape[-1])
    foreground, labelled = resize_labels(masks, size, dtype)
    area_weighted = False
    if not foreground.any():
        if not (torch.where(masks != IGNORE, masks, 0) > 0).any():
            raise ValueError(f"{where}: the support masks hold no foreground pixel (value 1): mark the object in one")
        foreground, labelled = area_labels(masks, size, dtype)
        area_weighted = True
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
        raise ValueError(f"query_valid must be a bool tensor [T, H, W] with T = {tasks}, got {_describe(valid)}")
    if valid.dtype != torch.bool:
        raise ValueError(f"query_valid must be bool (True: the pixel counts), got {valid.dtype}")
    kept, _ = resize_labels(valid.to(device=device, dtype=torch.uint8), size, dtype)
    if not kept.flatten(1).any(1).all():
        task = int((~kept.flatten(1).any(1)).nonzero()[0])
        raise ValueError(f"task {task}: query_valid leaves no query pixel at {size[0]}×{size[1]}")
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
        raise ValueError(f"proportion must be a number or a tensor [T], got {_describe(proportion)}") from None
    if pi.ndim == 0:
        pi = pi.repeat(tasks)
    if pi.shape != (tasks,):
        raise ValueError(f"proportion must be one number per task, [{tasks}], got shape {list(pi.shape)}")
    if not ((pi > 0) & (pi < 1)).all():
        wrong = pi[~((pi > 0) & (pi < 1))][0].item()
        raise ValueError(f"proportion must lie strictly between 0 and 1, got {wrong:g}")
    return pi


def _check_float(features: Tensor, name: str) -> None:
    if not features.dtype.is_floating_point:
        raise ValueError(f"{name} features must be floating point, got {features.dtype}")


def _nearest_index(length: int, target: int, device: torch.device) -> Tensor:
    """⌊i · length / target⌋ as torch's nearest interpolation rounds it (a float32 product)."""
    scale = torch.tensor(length / target, dtype=torch.float32)
    return (torch.arange(target, dtype=torch.float32) * scale).long().clamp_max(length - 1).to(device)


def _describe(value: object) -> str:
    return f"shape {list(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
