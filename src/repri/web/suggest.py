"""Which image is worth annotating next."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = ["suggest"]

MOST = 2000
"""Images that a suggestion is compared with; of more images, every n-th."""


def suggest(
    means: Mapping[str, Tensor], uncertainty: Mapping[str, float], annotated: Collection[str], count: int = 1
) -> list[str]:
    """Images to annotate next: those that stand for many uncertain images that are unlike the annotated ones.

    Uncertainty alone returns near-duplicates, because images that look alike fail alike. It also returns odd images,
    which teach nothing about the others. So each image has a weight, its uncertainty, and a distance to the nearest
    annotated image, by the mean of its whitened features. The image is taken that reduces the weighted sum of these
    distances most (weighted k-medoids, greedily). Each suggestion counts as annotated for the next one.

    Args:
        means: Image → [r] mean of its whitened features.
        uncertainty: Image → how little its mask can be trusted, 0 to 1; without one, an image has 0.5.
        annotated: The images that are annotated.
        count: Number of suggestions.

    Returns:
        The images, the best first.

    Example:
        >>> means = {"a": torch.tensor([1.0, 0.0]), "b": torch.tensor([1.0, 0.1]), "c": torch.tensor([0.0, 1.0])}
        >>> suggest(means, {"b": 0.9, "c": 0.5}, ["a"], 2)
        ['c', 'b']
    """
    left = [id for id in means if id not in annotated]
    if not left:
        return []
    rows = F.normalize(torch.stack([means[id] for id in left]).float(), dim=1)
    step = -(-len(left) // MOST)
    others, weight = rows[::step], torch.tensor([uncertainty.get(id, 0.5) for id in left[::step]]).clamp_min(1e-3)
    distance = (1 - rows @ others.T).clamp_min(0)  # [M, m]
    known = [means[id] for id in annotated if id in means]
    nearest = torch.full((len(others),), 2.0)
    if known:
        nearest = (1 - F.normalize(torch.stack(known).float(), dim=1) @ others.T).clamp_min(0).amin(0)
    open_ = torch.ones(len(left), dtype=torch.bool)
    chosen: list[str] = []
    for _ in range(min(count, len(left))):
        gain = ((nearest - distance).clamp_min(0) * weight).sum(1)
        place = int(torch.where(open_, gain, -1.0).argmax())
        chosen.append(left[place])
        nearest = torch.minimum(nearest, distance[place])
        open_[place] = False
    return chosen
