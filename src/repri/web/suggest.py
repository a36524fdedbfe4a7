"""Which image is worth annotating next."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = ["suggest"]


def suggest(
    means: Mapping[str, Tensor], uncertainty: Mapping[str, float], annotated: Collection[str], count: int = 1
) -> list[str]:
    """Images to annotate next: uncertain ones that are unlike those that were annotated, and unlike each other.

    Uncertainty alone returns near-duplicates, because images that look alike fail alike. So each image is worth its
    uncertainty times its distance to the nearest annotated image, by the mean of its whitened features (weighted
    k-centre). Each suggestion counts as annotated for the next one.

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
    open_ = [id for id in means if id not in annotated]
    if not open_:
        return []
    rows = F.normalize(torch.stack([means[id] for id in open_]).float(), dim=1)
    doubt = torch.tensor([uncertainty.get(id, 0.5) for id in open_]).clamp_min(1e-3)
    known = [means[id] for id in annotated if id in means]
    if known:
        distance = _distance(rows, F.normalize(torch.stack(known).float(), dim=1))
    else:  # the first one stands for most of the others
        distance = 1 / _distance(rows, F.normalize(rows.mean(0, keepdim=True), dim=1)).clamp_min(1e-3)
    chosen: list[str] = []
    for _ in range(min(count, len(open_))):
        place = int((doubt * distance).argmax())
        chosen.append(open_[place])
        distance = torch.minimum(distance, _distance(rows, rows[place : place + 1]))
        doubt[place] = 0
    return chosen


def _distance(rows: Tensor, others: Tensor) -> Tensor:
    """[M] 1 − the largest cosine of each row [M, r] with the others [n, r]."""
    return (1 - (rows @ others.T).amax(1)).clamp_min(0)
