"""Which image is worth annotating next."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from repri.segmenter.look import Seen

__all__ = ["Summary", "suggest", "summary_of"]

MOST = 2000
"""Images that a suggestion is compared with; of more images, every n-th."""


class Summary(NamedTuple):
    """What a suggestion knows of one image."""

    place: Tensor
    """[r] mean of the whitened features, of cells that may show a class."""
    doubt: float
    """Mean of p (1 − p) over the pixels: how much of the image is uncertain."""


def summary_of(seen: Seen, probabilities: Iterable[np.ndarray] = ()) -> Summary:
    """Summarise an image.

    Args:
        seen: Its cells.
        probabilities: The probability of each class, times 255, [H, W] uint8. Without any, all cells count the same.

    Returns:
        The summary.
    """
    rows, columns = int(seen.valid.any(1).sum()), int(seen.valid.any(0).sum())
    white, weights, doubt = seen.white[:, :rows, :columns].float(), torch.zeros(rows, columns), 1.0
    maps = [torch.from_numpy(values).float() / 255 for values in probabilities]
    if maps:
        doubt = float(sum((p * (1 - p)).mean() for p in maps))
        weights = F.adaptive_avg_pool2d(torch.stack(maps), (rows, columns)).sum(0)
    weights = weights + 1e-4  # an image without any object has the mean of all its cells
    return Summary((white * weights).sum((1, 2)) / weights.sum(), doubt)


def suggest(known: Mapping[str, Summary], annotated: Collection[str], count: int = 1) -> list[str]:
    """Images to annotate next: those whose objects stand for many uncertain objects unlike the annotated ones.

    Uncertainty alone returns near-duplicates, because objects that look alike fail alike. It also returns odd images,
    which teach nothing about the others. So each image has a weight, its doubt, and a distance to the nearest annotated
    image, 1 − the cosine of their places. The image is taken that reduces the weighted sum of these distances most
    (weighted k-medoids, greedily). Each suggestion counts as annotated for the next one.

    Args:
        known: Image → its summary.
        annotated: The images that are annotated.
        count: Number of suggestions.

    Returns:
        The images, the best first.

    Example:
        >>> places = {"a": (1.0, 0.0), "b": (1.0, 0.1), "c": (0.0, 1.0)}
        >>> known = {id: Summary(torch.tensor(place), 0.1) for id, place in places.items()}
        >>> suggest(known, ["a"], 2)
        ['c', 'b']
    """
    left = [id for id in known if id not in annotated]
    if not left:
        return []
    rows = F.normalize(torch.stack([known[id].place for id in left]).float(), dim=1)
    step = -(-len(left) // MOST)
    others, weight = rows[::step], torch.tensor([known[id].doubt for id in left[::step]]).clamp_min(1e-6)
    distance = (1 - rows @ others.T).clamp_min(0)  # [M, m]
    done = [known[id].place for id in annotated if id in known]
    nearest = torch.full((len(others),), 2.0)
    if done:
        nearest = (1 - F.normalize(torch.stack(done).float(), dim=1) @ others.T).clamp_min(0).amin(0)
    open_ = torch.ones(len(left), dtype=torch.bool)
    chosen: list[str] = []
    for _ in range(min(count, len(left))):
        gain = ((nearest - distance).clamp_min(0) * weight).sum(1)
        place = int(torch.where(open_, gain, -1.0).argmax())
        chosen.append(left[place])
        nearest = torch.minimum(nearest, distance[place])
        open_[place] = False
    return chosen
