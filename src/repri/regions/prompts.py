"""Prompts from a probability map: peaks, points on a grid, a box."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = ["box_of", "grid_points", "peaks"]


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
    found: list[tuple[int, int]] = []
    for _ in range(count):
        place = int(left.argmax())
        row, column = divmod(place, width)
        if found and (not torch.isfinite(left[row, column]) or p[row, column] <= least):
            break
        found.append((row, column))
        left = left.masked_fill((rows - row) ** 2 + (columns - column) ** 2 < reach**2, -torch.inf)
    return torch.tensor(found)


def grid_points(p: Tensor, side: int, least: float, most: int) -> Tensor:
    """Centres of the squares of a grid at which a map is high.

    Args:
        p: [h, w] probabilities.
        side: Squares along each side.
        least: Least probability at a point.
        most: Most points; those with the highest probabilities are taken.

    Returns:
        [n, 2] long: row and column of each.

    Example:
        >>> grid_points(torch.eye(4), 2, 0.5, 9)
        tensor([[1, 1],
                [3, 3]])
    """
    height, width = p.shape
    rows, columns = (((torch.arange(side) + 0.5) / side * n).long() for n in (height, width))
    places = torch.stack(torch.meshgrid(rows, columns, indexing="ij"), -1).flatten(0, 1)
    values = p[places[:, 0], places[:, 1]]
    order = values.argsort(descending=True, stable=True)[:most]
    return places[order[values[order] > least].sort().values]


def box_of(p: Tensor, threshold: float = 0.5) -> tuple[int, int, int, int]:
    """(left, top, right, bottom) of the cells of a map above a threshold, which is half of the maximum where no cell
    is above it.

    Example:
        >>> box_of(torch.eye(4)[:2])
        (0, 0, 2, 2)
    """
    inside = p > min(threshold, float(p.max()) / 2)
    rows, columns = inside.any(1).nonzero()[:, 0], inside.any(0).nonzero()[:, 0]
    if len(rows) == 0:
        return 0, 0, p.shape[1], p.shape[0]
    return int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1
