"""Borders: what is done with a probability map at the image's own size, before it becomes a mask.

``none`` leaves it as it is, ``guided`` lets its borders follow the image's edges, ``fine`` does so for small objects,
``regions`` replaces it by the regions of a promptable mask model that agree with it. ``register_refiner`` adds others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from repri.regions.refiner import RegionRefiner
from repri.runtime.errors import RepriError
from repri.runtime.registry import Registry

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

__all__ = ["REFINERS", "Refiner", "Staged", "get_refiner", "refine_name", "register_refiner"]

Refiner = Callable[["Tensor", "np.ndarray"], "Tensor"]
"""Probabilities [N, H, W] and the image [H, W, 3] uint8 → probabilities [N, H, W], whose sum is at most 1. The result
may lie in the memory of the first argument, which is not used again."""

LARGE = 1 << 24
"""Pixels of an image above which it is worked on in strips: whole, it would take 40 bytes of memory for each pixel."""


@runtime_checkable
class Staged(Protocol):
    """A refiner of two stages, which a model carries out. What else is known about an image is joined with the maps
    between the stages. The second one decides how large objects are, so that the proportion is that of its maps."""

    def borders(self, maps: Tensor, image: np.ndarray) -> Tensor:
        """The first stage."""
        ...

    def choose(self, maps: Tensor, image: np.ndarray) -> tuple[Tensor, list[Tensor]]:
        """The second stage: the new maps, and for each class the regions [n, H, W] of which its map was made."""
        ...

    def with_model(self, name: str | None, keep: bool) -> Refiner:
        """The same with the model of a name; ``keep``: what it computes about an image is kept on disk."""
        ...


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


def get_refiner(name: str, keep: bool = False) -> Refiner:
    """The refinement of a name.

    Args:
        name: ``none``, ``guided``, ``fine``, ``regions``, ``regions:MODEL``, or one that was registered.
        keep: Whether what a model computes about an image is kept on disk, because the image will come again.

    Returns:
        A function of probabilities [N, H, W] and the image.

    Example:
        >>> get_refiner("gided")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        repri.runtime.errors.RepriError: There is no refinement named 'gided', did you mean 'guided'? Known: ...
    """
    base, _, model = name.partition(":")
    refiner = REFINERS[base]
    if isinstance(refiner, Staged):
        return refiner.with_model(model or None, keep)
    if model:
        raise RepriError(f"The refinement {base} uses no model: write {base} instead of {name}.")
    return refiner


def refine_name(refine: str, regions: str | None) -> str:
    """One name for a refinement and the region model that it uses.

    Example:
        >>> refine_name("regions", "mobile-sam"), refine_name("guided", None)
        ('regions:mobile-sam', 'guided')
    """
    if regions is None or ":" in refine:
        return refine
    if refine != "regions":
        raise RepriError(f"regions names the model of the refinement regions, and refine is {refine!r}.")
    return f"{refine}:{regions}"


REFINERS.register("regions", RegionRefiner(_guided), "regions of a promptable mask model that agree with the map")
