"""Masks at the resolution of features: which cell is labelled, and as what.

Pure tensors. Where the cells of a network lie on an image is the business of :mod:`repri.features`, which calls these
functions for images; :func:`repri.inference.infer` calls them for masks that a caller gives at their own size.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from repri.runtime.errors import RepriError

__all__ = ["IGNORE", "area_labels", "check_masks", "nearest_index", "nearest_labels", "on_one_grid", "true_proportion"]

IGNORE = 255
"""Mask value of pixels without a label."""


def nearest_labels(masks: Tensor, size: tuple[int, int]) -> Tensor:
    """Masks by nearest downsampling, as the authors do it.

    Args:
        masks: [N, H, W] with values 0, 1, 255 or soft values in [0, 1].
        size: Height and width (h, w) of the features.

    Returns:
        [N, h, w] values of the mask, 255 where there is no label.
    """
    if masks.shape[-2:] == size:
        return masks
    rows, columns = (nearest_index(n, m, masks.device) for n, m in zip(masks.shape[-2:], size, strict=True))
    return masks[:, rows][:, :, columns]


def area_labels(masks: Tensor, size: tuple[int, int]) -> Tensor:
    """Masks by area: the label of a cell is the mean over its labelled pixels.

    Args:
        masks: [N, H, W] as in :func:`nearest_labels`.
        size: Height and width (h, w) of the features.

    Returns:
        [N, h, w] float32, 255 where no pixel of the cell is labelled.
    """
    labelled = masks != IGNORE
    foreground = F.adaptive_avg_pool2d(torch.where(labelled, masks, 0).float()[None], size)[0]
    known = F.adaptive_avg_pool2d(labelled.float()[None], size)[0]
    return torch.where(known > 0, foreground / known.clamp_min(1e-12), float(IGNORE))


def nearest_index(length: int, target: int, device: torch.device | None = None) -> Tensor:
    """⌊i · length / target⌋ for i < target, as torch's nearest interpolation rounds it (a float32 product)."""
    scale = torch.tensor(length / target, dtype=torch.float32)
    return (torch.arange(target, dtype=torch.float32) * scale).long().clamp_max(length - 1).to(device)


def has_object(labels: Tensor) -> Tensor:
    """Whether each of the labels [N, h, w] has a foreground value: bool [N]."""
    return ((labels > 0) & (labels != IGNORE)).flatten(1).any(1)


def on_one_grid(maps: Sequence[Tensor], rest: float = 0) -> Tensor:
    """Maps [..., hᵢ, wᵢ] → [T, ..., h, w] of the largest sides, ``rest`` where a map has no cell."""
    height, width = (max(m.shape[axis] for m in maps) for axis in (-2, -1))
    if all(m.shape[-2:] == (height, width) for m in maps):
        return torch.stack(list(maps))
    grid = maps[0].new_full((len(maps), *maps[0].shape[:-2], height, width), rest)
    for place, m in zip(grid, maps, strict=True):
        place[..., : m.shape[-2], : m.shape[-1]] = m
    return grid


def true_proportion(masks: Tensor, size: Sequence[int]) -> Tensor:
    """The proportion π*₁ of the object at feature size, without unlabelled pixels (Eq. 4).

    An object that nearest downsampling loses is measured by area, so that π* > 0 whenever there is an object.

    Args:
        masks: […, H, W] with values 0, 1 and 255.
        size: Height and width (h, w) of the features.

    Returns:
        […] proportions.

    Example:
        >>> true_proportion(torch.tensor([[[0, 1], [255, 1]]]), (2, 2))
        tensor([0.6667])
    """
    if not isinstance(masks, Tensor) or masks.ndim < 2 or masks.numel() == 0:
        raise RepriError(f"true_proportion takes a tensor of masks […, H, W], got {describe(masks)}.")
    if not isinstance(size, Sequence) or len(size) != 2 or not all(isinstance(n, int) and n >= 1 for n in size):
        raise RepriError(f"size must be two integers (h, w) of at least 1, got {size!r}.")
    cells = (size[0], size[1])
    flat = check_masks(masks.detach().reshape(-1, *masks.shape[-2:]), "masks")
    labels = nearest_labels(flat, cells).float()
    lost = ~has_object(labels) & has_object(flat)
    if lost.any():
        labels[lost] = area_labels(flat[lost], cells)
    known = labels != IGNORE
    count = known.sum((1, 2))
    if (count == 0).any():
        index = int((count == 0).nonzero()[0])
        raise RepriError(
            f"Mask {index} has no labelled pixel at {cells[0]}×{cells[1]} cells, so its proportion is undefined."
        )
    return (torch.where(known, labels, 0).sum((1, 2)) / count).reshape(masks.shape[:-2])


def check_masks(masks: Tensor, name: str) -> Tensor:
    """Masks whose values are 0, 1, 255 (or in [0, 1] and 255 for floats); other values are an error."""
    if masks.dtype == torch.bool:
        return masks.to(torch.uint8)
    if masks.dtype.is_complex:
        raise RepriError(f"{name} must hold real numbers, got {masks.dtype}.")
    if not masks.dtype.is_floating_point and masks.dtype != torch.uint8:
        masks = masks.to(torch.int64)  # torch cannot compare the larger unsigned types
    if masks.dtype.is_floating_point:
        wrong = ~((masks >= 0) & (masks <= 1)) & (masks != IGNORE)  # NaN is wrong too
        allowed = "in [0, 1], or 255"
    else:
        wrong = _not_binary(masks) if masks.dtype == torch.uint8 else ((masks > 1) & (masks != IGNORE)) | (masks < 0)
        allowed = "0, 1 or 255"
    if wrong.any():
        value = masks[wrong][0].item()
        raise RepriError(f"{name} has the value {value:g}: mask values must be {allowed} (255 means unlabelled).")
    return masks if masks.dtype.is_floating_point else masks.to(torch.uint8)


def _not_binary(masks: Tensor) -> Tensor:
    """Bytes other than 0, 1 and 255; by numpy on the CPU, where torch's threads would wait for busy cores."""
    if masks.device.type == "cpu":
        return torch.from_numpy(masks.numpy() + np.uint8(1) > 2)
    return masks + 1 > 2


def describe(value: object) -> str:
    """The shape of a tensor, or the type of anything else, for messages."""
    return f"shape {list(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
