"""The refinement ``regions``: a probability map is replaced by the regions that agree with it.

The highest peaks of the map are prompts. Of the masks that they give, those are merged whose union has the largest
expected IoU. Every class has its own prompts. Torch is imported late, because flags of commands know this name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

    from .model import Embedding, RegionModel

__all__ = ["RegionRefiner"]

PEAKS, APART, HIGH = 12, 0.07, 0.3
"""Most peaks of a map, their least distance as a fraction of the longer side, and the least probability of a peak."""
LARGEST = 512
"""Longest side of a map in which peaks are looked for."""
SEEN = 0.5
"""A map that is nowhere above this shows nothing, and stays as it is."""
TRUST = 0.7
"""Weight of the regions in the new map; the old one has the rest. Above 0.5 the regions alone decide the mask, and the
old map still tells how sure it is."""


@dataclass(frozen=True, eq=False)
class RegionRefiner:
    """Chooses regions for every class.

    Args:
        borders: What is done with the maps first.
        model: Name of the region model; None: the first one whose weights are in the cache.
        keep: Whether embeddings are kept in the feature store.
    """

    borders: Callable[[Tensor, np.ndarray], Tensor]
    model: str | None = None
    keep: bool = False

    def with_model(self, name: str | None, keep: bool) -> RegionRefiner:
        """The same with another model, which must be here."""
        from .load import regions_name

        return replace(self, model=regions_name(name), keep=keep)

    def __call__(self, maps: Tensor, image: np.ndarray) -> Tensor:
        return self.choose(self.borders(maps, image), image)[0]

    def choose(self, maps: Tensor, image: np.ndarray) -> tuple[Tensor, list[Tensor]]:
        """Maps [N, H, W] in which regions of the image [H, W, 3] replace what agrees with them, and for each class the
        regions that were chosen, bool [n, H, W]."""
        import torch

        nothing = torch.zeros(0, *maps.shape[1:], dtype=torch.bool)
        shown = (maps.amax((1, 2)) > SEEN).tolist()
        if not any(shown):
            return maps, [nothing] * len(maps)
        embedding = self._encode(image)
        new = [region_map(self._model, embedding, p) if s else (p, nothing) for p, s in zip(maps, shown, strict=True)]
        joined = torch.stack([p for p, _ in new])
        return joined / joined.sum(0).clamp_min(1), [regions for _, regions in new]

    @cached_property
    def _model(self) -> RegionModel:
        from .load import load_regions

        return load_regions(self.model)

    @cached_property
    def _encode(self) -> Callable[[np.ndarray], Embedding]:
        from .store import EmbeddingStore

        return EmbeddingStore(self._model).get if self.keep else self._model.encode


def region_map(model: RegionModel, embedding: Embedding, p: Tensor) -> tuple[Tensor, Tensor]:
    """The map of one class with regions in it.

    Args:
        model: The region model.
        embedding: What it knows about the image.
        p: [H, W] probabilities at the image's own size.

    Returns:
        [H, W] probabilities, and bool [n, H, W] the regions that were chosen.
    """
    import torch
    import torch.nn.functional as F

    from .choose import merged, untouched
    from .prompts import peaks

    factor = min(1.0, LARGEST / max(p.shape))
    small = [max(1, round(side * factor)) for side in p.shape]
    reduced = p if factor == 1 else F.interpolate(p[None, None], small, mode="area")[0, 0]
    scale = torch.tensor([p.shape[1] / small[1], p.shape[0] / small[0]])
    places = peaks(reduced, PEAKS, APART, HIGH)
    regions = model.masks(embedding, points=((places.flip(-1) + 0.5) * scale)[:, None])
    logits = regions.logits.flatten(0, 1)  # [C, h, w]
    coarse = F.interpolate(p[None, None], logits.shape[-2:], mode="area")[0, 0]
    chosen = merged((logits > 0).float(), coarse)
    if not chosen:
        return p, torch.zeros(0, *p.shape, dtype=torch.bool)
    fine = F.interpolate(logits[chosen][None], p.shape, mode="bilinear", align_corners=False)[0]
    inside = torch.sigmoid(fine.amax(0))
    new = TRUST * inside + (1 - TRUST) * p
    return torch.where(untouched(p > 0.5, inside > 0.5), p, new), fine > 0
