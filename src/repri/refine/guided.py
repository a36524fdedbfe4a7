"""Maps from a coarse grid get the image's edges: a guided filter [He et al. 2013].

In every window the map is modelled as linear in the image's colours, p ≈ a·I + b, so that it changes where they do.
a and b are computed at a reduced resolution, averaged over windows, and applied to the image itself [He & Sun 2015].
"""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = ["guided", "guided_in_strips"]

STRIP = 1 << 19
"""Pixels of a large image that are worked on at once."""


def guided(maps: Tensor, image: Tensor, radius: float = 0.02, epsilon: float = 1e-3, side: int = 96) -> Tensor:
    """Maps whose borders follow the edges of an image.

    Args:
        maps: [N, H, W] in [0, 1].
        image: [3, H, W] in [0, 1].
        radius: Radius of the windows, as a fraction of the longer side.
        epsilon: Variance of a colour below which it is no edge.
        side: Longer side of the grid on which windows are computed.

    Returns:
        [N, H, W] in [0, 1].
    """
    size = (maps.shape[-2], maps.shape[-1])
    small = _small(size, side)
    both = torch.cat([F.interpolate(m[None], size=small, mode="area")[0] for m in (image, maps)])  # [3 + N, h, w]
    fine = F.interpolate(_coefficients(both, radius, epsilon)[None], size=size, mode="bilinear")[0]
    a, b = fine[: -len(maps)].unflatten(0, (-1, 3)), fine[-len(maps) :]
    for channel in range(3):
        b = torch.addcmul(b, a[:, channel], image[channel])
    return b.clamp_(0, 1)


def guided_in_strips(
    maps: Tensor, image: np.ndarray, radius: float = 0.02, epsilon: float = 1e-3, side: int = 96
) -> Tensor:
    """Maps of a large image, with the memory of a few rows; equal to :func:`guided` up to rounding.

    Args:
        maps: [N, H, W] in [0, 1]; the result is written over them.
        image: [H, W, 3] uint8.
        radius: As for :func:`guided`.
        epsilon: As for :func:`guided`.
        side: As for :func:`guided`.

    Returns:
        [N, H, W] in [0, 1], whose sum is at most 1.
    """
    height, width = maps.shape[-2:]
    rows = max(1, STRIP // width)
    small = _small((height, width), side)
    both = maps.new_empty(3 + len(maps), *small)
    for row in range(small[0]):  # written in place: a list of small results would pin the memory of large ones
        both[:3, row] = _area_row(image, row, small)
    both[3:] = F.interpolate(maps[None], size=small, mode="area")[0]
    coarse = _coefficients(both, radius, epsilon)
    for top in range(0, height, rows):
        places = torch.arange(top, min(top + rows, height), device=maps.device)
        source = ((places + 0.5) * (small[0] / height) - 0.5).clamp_min(0)
        above = source.floor().long().clamp_max(small[0] - 1)
        below = (above + 1).clamp_max(small[0] - 1)
        part = torch.lerp(coarse[:, above], coarse[:, below], (source - above)[:, None].to(coarse.dtype))
        fine = F.interpolate(part[None], size=(len(places), width), mode="bilinear")[0]
        a, b = fine[: -len(maps)].unflatten(0, (-1, 3)), fine[-len(maps) :]
        strip = torch.from_numpy(image[top : top + rows]).to(maps.device).movedim(-1, 0).float() / 255
        for channel in range(3):
            b = torch.addcmul(b, a[:, channel], strip[channel])
        b = b.clamp_(0, 1)
        maps[:, top : top + rows] = b / b.sum(0).clamp_min(1)
    return maps


def _area_row(image: np.ndarray, row: int, small: list[int]) -> Tensor:
    """One row of an image's colours at a reduced size, [3, w]: means of areas."""
    height = len(image)
    part = image[row * height // small[0] : -(-(row + 1) * height // small[0])]
    colours = torch.from_numpy(np.ascontiguousarray(part)).movedim(-1, 0).float() / 255
    return F.interpolate(colours[None], size=(1, small[1]), mode="area")[0, :, 0]


def _small(size: tuple[int, int], side: int) -> list[int]:
    """Height and width of the grid on which windows are computed."""
    factor = min(1.0, side / max(size))
    return [max(1, round(length * factor)) for length in size]


def _coefficients(both: Tensor, radius: float, epsilon: float) -> Tensor:
    """[4N, h, w]: a (three for each map) and b (one for each) of the linear models, averaged over windows."""
    reach = max(1, round(radius * max(both.shape[-2:])))
    mean = _box(both, reach)
    products = (both[:3, None] * both).flatten(0, 1)
    covariance = _box(products, reach).unflatten(0, (3, -1)) - mean[:3, None] * mean  # [3, 3 + N, h, w]
    a = _solve(covariance[:, :3], covariance[:, 3:], epsilon)  # [N, 3, h, w]
    b = mean[3:] - (a * mean[:3]).sum(1)
    return _box(torch.cat([a.flatten(0, 1), b]), reach)


def _solve(sigma: Tensor, right: Tensor, epsilon: float) -> Tensor:
    """(Σ + ε)⁻¹ times each right side, at every cell: [3, 3, h, w] and [3, N, h, w] → [N, 3, h, w]. By cofactors,
    because it is slow to solve many small systems one by one."""
    (a, b, c), (_, d, e), (_, _, f) = sigma
    a, d, f = a + epsilon, d + epsilon, f + epsilon
    first, second, third = d * f - e * e, c * e - b * f, b * e - c * d
    rows = (
        (first, second, third),
        (second, a * f - c * c, b * c - a * e),
        (third, b * c - a * e, a * d - b * b),
    )
    determinant = a * first + b * second + c * third
    x, y, z = right
    return torch.stack([(p * x + q * y + r * z) / determinant for p, q, r in rows], 1)


def _box(maps: Tensor, radius: int) -> Tensor:
    """Means over windows, which are smaller at the border. Windows have few cells, so shifted copies are summed."""
    for axis in (-1, -2):
        length = maps.shape[axis]
        sums = maps.clone()
        for shift in range(1, min(radius, length - 1) + 1):
            rest = length - shift
            sums.narrow(axis, shift, rest).add_(maps.narrow(axis, 0, rest))
            sums.narrow(axis, 0, rest).add_(maps.narrow(axis, shift, rest))
        places = torch.arange(length, device=maps.device)
        count = (places + radius + 1).clamp_max(length) - (places - radius).clamp_min(0)
        maps = sums / (count if axis == -1 else count[:, None])
    return maps
