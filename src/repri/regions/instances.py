"""Objects of one class as separate instances.

Parts of a mask that do not touch are separate objects. Objects that touch are separated where the chosen regions say
so: where two of them lie side by side."""

from __future__ import annotations

import numpy as np
import torch

from repri.runtime.errors import MissingExtraError

from .choose import components

__all__ = ["separated"]

WITHIN, PART, SHARED, TOGETHER = 0.8, 0.1, 0.2, 0.6
"""A region separates a part of a mask if this fraction of it lies within the part, if it covers this fraction of the
part, if it shares less than this fraction of itself with a larger one, and if all such regions together cover this
fraction of the part."""


def separated(mask: np.ndarray, regions: np.ndarray | None = None, least: float = 0.0005) -> np.ndarray:
    """Number the objects of a mask.

    Args:
        mask: bool [H, W] of one class.
        regions: bool [n, H, W] regions of which the mask was made, if there are any.
        least: Least size of an object, as a fraction of the image; smaller ones are left out, unless there is no larger
            one.

    Returns:
        [H, W] int32: 0 outside, 1, 2, … the objects.

    Example:
        >>> mask = np.array([[1, 1, 1, 1, 0, 1]], bool)
        >>> left = np.array([[1, 1, 0, 0, 0, 0]], bool)
        >>> right = np.array([[0, 0, 1, 0, 0, 0]], bool)
        >>> separated(mask, np.stack([left, right]))
        array([[1, 1, 2, 2, 0, 3]], dtype=int32)
    """
    parts = components(torch.from_numpy(np.ascontiguousarray(mask))).numpy()
    out, count = np.zeros(mask.shape, np.int32), 0
    sizes = np.bincount(parts.flatten())[1:]
    limit = min(least * mask.size, sizes.max(initial=0))
    for number, size in enumerate(sizes, 1):
        if size < limit:
            continue
        part = parts == number
        inside = [] if regions is None else _side_by_side(part, regions)
        out[part] = count + (1 if len(inside) < 2 else _nearest(part, inside))
        count = int(out.max())
    return out


def _side_by_side(part: np.ndarray, regions: np.ndarray) -> list[np.ndarray]:
    """The regions that divide a connected part, the largest first; none if they leave too much of it."""
    size = int(part.sum())
    within = [(int((region & part).sum()), region) for region in regions]
    usable = [
        (area, region & part)
        for area, region in within
        if area >= PART * size and area >= WITHIN * region.sum() and area < (1 - PART) * size
    ]
    chosen: list[np.ndarray] = []
    for area, region in sorted(usable, key=lambda item: -item[0]):
        if all((region & other).sum() < SHARED * area for other in chosen):
            chosen.append(region)
    covered = np.logical_or.reduce(chosen).sum() if chosen else 0
    return chosen if covered >= TOGETHER * size else []


def _nearest(part: np.ndarray, regions: list[np.ndarray]) -> np.ndarray:
    """For each pixel of a part, the number of the region that is nearest; the smaller one where two overlap."""
    try:
        from scipy.ndimage import distance_transform_edt
    except ImportError:
        raise MissingExtraError("Instances need scipy: pip install 'repri[regions]'.") from None
    order = sorted(range(len(regions)), key=lambda i: int(regions[i].sum()))
    distances = np.stack([distance_transform_edt(~regions[i])[part] for i in order])
    return np.array(order)[distances.argmin(0)] + 1
