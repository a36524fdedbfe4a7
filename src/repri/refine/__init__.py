"""Borders: what is done with a probability map at the image's own size, before it becomes a mask.

``none`` leaves it as it is, ``guided`` lets its borders follow the image's edges, ``fine`` does so for small objects.
``register_refiner`` adds others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from repri.runtime.registry import Registry

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

__all__ = ["REFINERS", "Refiner", "get_refiner", "register_refiner"]

Refiner = Callable[["Tensor", "np.ndarray"], "Tensor"]
"""Probabilities [N, H, W] and the image [H, W, 3] uint8 → probabilities [N, H, W], whose sum is at most 1. The result
may lie in the memory of the first argument, which is not used again."""

LARGE = 1 << 24
"""Pixels of an image above which it is worked on in strips: whole, it would take 40 bytes of memory for each pixel."""
REFINERS = Registry[Refiner]("refinement", "repri.refiners")
register_refiner = REFINERS.decorator


@register_refiner("none", "the interpolated probabilities as they are")
def _none(maps: Tensor, image: np.ndarray) -> Tensor:
    return maps


@register_refiner("guided", "a guided filter: borders follow the image's edges")
def _guided(maps: Tensor, image: np.ndarray) -> Tensor:
    return _filtered(maps, image, 0.02, 96)


@register_refiner("fine", "a guided filter of half the radius, for small objects")
def _fine(maps: Tensor, image: np.ndarray) -> Tensor:
    return _filtered(maps, image, 0.01, 192)


def _filtered(maps: Tensor, image: np.ndarray, radius: float, side: int) -> Tensor:
    import torch

    from .guided import guided, guided_in_strips

    if maps.shape[-1] * maps.shape[-2] > LARGE:
        return guided_in_strips(maps, image, radius, side=side)
    colours = torch.from_numpy(image).movedim(-1, 0).float() / 255
    refined = guided(maps, colours, radius, side=side)
    return refined / refined.sum(0).clamp_min(1)


def get_refiner(name: str) -> Refiner:
    """The refinement of a name.

    Args:
        name: ``none``, ``guided``, or one that was registered.

    Returns:
        A function of probabilities [N, H, W] and the image.

    Example:
        >>> get_refiner("gided")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        repri.runtime.errors.RepriError: There is no refinement named 'gided', did you mean 'guided'? Known: ...
    """
    return REFINERS[name]
