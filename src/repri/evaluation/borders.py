"""How well the border of a mask follows the true border: an F-measure, as Davis and others use it."""

from __future__ import annotations

import math

import torch.nn.functional as F
from torch import Tensor

from repri.inference.labels import IGNORE

__all__ = ["boundary_f", "outlined"]

REACH = 0.0075
"""Distance at which two borders still match, as a fraction of the image's diagonal."""
BAND = 5
"""Width in pixels of the band without labels that VOC draws around objects."""


def outlined(mask: Tensor) -> Tensor:
    """The object up to the middle of the band without labels that VOC draws around it.

    Args:
        mask: [H, W] of 0, 1 and 255.

    Returns:
        bool [H, W].
    """
    grown = F.max_pool2d((mask == 1)[None, None].float(), BAND, 1, BAND // 2)[0, 0].bool()
    return (mask == 1) | (grown & (mask == IGNORE))


def boundary_f(prediction: Tensor, truth: Tensor) -> float:
    """F-measure of the borders of two masks.

    Args:
        prediction: bool [H, W].
        truth: bool [H, W].

    Returns:
        A number in [0, 1]: 2PR / (P + R), where P is the fraction of the predicted border that lies near the true one,
        and R the fraction of the true border that lies near the predicted one. Two empty masks have 1.

    Example:
        >>> import torch
        >>> square = torch.zeros(20, 20, dtype=torch.bool)
        >>> square[5:15, 5:15] = True
        >>> boundary_f(square, square), boundary_f(square, square & False)
        (1.0, 0.0)
    """
    reach = max(1, round(REACH * math.hypot(*prediction.shape)))
    a, b = _border(prediction), _border(truth)
    if not a.any() or not b.any():
        return float(not a.any() and not b.any())
    precision = float((a & _near(b, reach)).sum() / a.sum())
    recall = float((b & _near(a, reach)).sum() / b.sum())
    return 2 * precision * recall / max(precision + recall, 1e-12)


def _border(mask: Tensor) -> Tensor:
    """The pixels just outside a mask."""
    values = mask[None, None].float()
    return (F.max_pool2d(values, 3, 1, 1) - values)[0, 0] > 0


def _near(border: Tensor, reach: int) -> Tensor:
    grown = border[None, None].float()
    for kernel in ((2 * reach + 1, 1), (1, 2 * reach + 1)):  # one axis after the other is faster
        grown = F.max_pool2d(grown, kernel, 1, (kernel[0] // 2, kernel[1] // 2))
    return grown[0, 0] > 0
