"""Candidates for an object, and how they are chosen and merged by agreement with a probability map.

A *candidate* is one mask that a region model gave for one prompt. These are pure functions: they need no model."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from repri.runtime.errors import MissingExtraError

__all__ = ["components", "expected_iou", "merged", "untouched"]

LARGE = 0.9
"""A candidate that covers more of the image than this is the background."""
LEAST = 1e-3
"""Least gain for which one more candidate is merged."""
COVERED = 0.1
"""A part of a mask of which less than this was covered by regions is kept as it is."""


def expected_iou(masks: Tensor, p: Tensor) -> Tensor:
    """IoU of masks that probabilities expect: Σ p inside / (cells inside + Σ p outside).

    Args:
        masks: [C, h, w] in [0, 1].
        p: [h, w] probabilities.

    Returns:
        [C].

    Example:
        >>> expected_iou(torch.tensor([[[1.0, 1.0, 0.0]], [[1.0, 0.0, 0.0]]]), torch.tensor([[1.0, 0.5, 0.5]]))
        tensor([0.6000, 0.5000])
    """
    inside = (masks * p).sum((1, 2))
    return inside / (masks.sum((1, 2)) + p.sum() - inside).clamp_min(1e-6)


def merged(masks: Tensor, p: Tensor) -> list[int]:
    """Candidates whose union has the largest expected IoU: the best one first, then whichever adds most.

    Args:
        masks: [C, h, w] candidates in [0, 1].
        p: [h, w] probabilities.

    Returns:
        Places of the chosen candidates, in the order in which they were taken.

    Example:
        >>> masks = torch.tensor([[[1.0, 1.0, 0.0, 0.0]], [[0.0, 0.0, 1.0, 0.0]], [[1.0, 1.0, 1.0, 1.0]]])
        >>> merged(masks, torch.tensor([[0.9, 0.4, 0.6, 0.0]]))
        [0, 1]
    """
    p, union, chosen = p.clamp_min(0), torch.zeros_like(p), list[int]()
    usable = masks.mean((1, 2)) <= LARGE
    best = 0.0
    for _ in range(len(masks)):
        values = expected_iou(torch.maximum(masks, union), p) * usable
        place = int(values.argmax())
        if float(values[place]) <= best + LEAST:
            break
        best = float(values[place])
        union = torch.maximum(union, masks[place])
        chosen.append(place)
    return chosen


def untouched(mask: Tensor, regions: Tensor, covered: float = COVERED) -> Tensor:
    """The connected parts of a mask that regions leave alone: few prompts cannot reach each of many small objects.

    Args:
        mask: bool [h, w].
        regions: bool [h, w].
        covered: Fraction of a part that regions may cover.

    Returns:
        bool [h, w].

    Example:
        >>> mask = torch.tensor([[True, True, False, True]])
        >>> untouched(mask, torch.tensor([[True, False, False, False]]))
        tensor([[False, False, False,  True]])
    """
    labels = components(mask)
    count = int(labels.max())
    if count == 0:
        return mask
    size = torch.bincount(labels.flatten(), minlength=count + 1)
    hit = torch.bincount(labels[regions], minlength=count + 1)
    keep = hit < covered * size.clamp_min(1)
    keep[0] = False
    return keep[labels]


def components(mask: Tensor) -> Tensor:
    """Connected parts of a bool mask [h, w], numbered 1, 2, …; pixels that touch at a corner are connected.

    Example:
        >>> components(torch.tensor([[1, 0, 1], [1, 0, 0]]).bool())
        tensor([[1, 0, 2],
                [1, 0, 0]])
    """
    try:
        from scipy.ndimage import label
    except ImportError:
        raise MissingExtraError("Regions need scipy: pip install 'repri[regions]'.") from None
    return torch.from_numpy(label(mask.numpy(), np.ones((3, 3)))[0].astype(np.int64))
