"""Prompts from a probability map: its peaks."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = ["peaks"]


def peaks(p: Tensor, count: int, apart: float = 0.12, least: float = 0.0) -> Tensor:
    """Separated maxima of a map.

    Args:
        p: [h, w] probabilities.
        count: Most peaks.
        apart: Least distance between two of them, as a fraction of the longer side.
        least: Least probability of a peak.

    Returns:
        [n, 2] long: row and column of each, the highest first; the highest always, others only above ``least``.

    Example:
        >>> p = torch.zeros(10, 10)
        >>> p[2, 3], p[2, 4], p[8, 8] = 0.9, 0.8, 0.7
        >>> peaks(p, 2, apart=0.3)
        tensor([[2, 3],
                [8, 8]])
    """
    height, width = p.shape
    reach = apart * max(height, width)
    # The middle of a plateau is a better point than its corner: a little smoothing finds it.
    radius = max(1, round(reach / 4))
    smooth = F.avg_pool2d(p[None, None].float(), 2 * radius + 1, 1, radius, count_include_pad=False)[0, 0]
    left = p + 1e-3 * smooth
    rows, columns = torch.arange(height)[:, None], torch.arange(width)
    places: list[tuple[int, int]] = []
    for _ in range(count):
        place = int(left.argmax())
        row, column = divmod(place, width)
        if places and (not torch.isfinite(left[row, column]) or p[row, column] <= least):
            break
        places.append((row, column))
        left = left.masked_fill((rows - row) ** 2 + (columns - column) ** 2 < reach**2, -torch.inf)
    return torch.tensor(places)
