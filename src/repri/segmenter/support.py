"""The annotated pictures as one support set, and whether a class is in another picture at all."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from repri.data.images import IGNORE
from repri.data.resize import Geometry
from repri.models import Whitening, whitening_of

__all__ = ["Support", "build_support", "cell_labels", "presence_of", "shows", "statistic"]

SHARE = 0.02
"""Of a picture's cells, the most similar ones, that stand for the object if it is there."""
KNOWN = (7.6, 0.28)
"""Slope and middle of the score, where the spread of the features is known (``benchmarks/own_images.py presence``)."""
GUESSED = (4.0, 0.3)
"""And where it must be guessed from the annotated pictures."""


class Support(NamedTuple):
    features: Tensor
    """[K, C, h, w], zero where a picture has no cell."""
    labels: Tensor
    """[K, h, w]: 0 … N and 255, or soft values of the one class."""
    whitening: Whitening
    known: bool
    """Whether the whitening came with the extractor, and is no guess from these few pictures."""
    objects: Tensor
    """[N, r] mean directions of the classes, whitened."""


def shows(mask: np.ndarray, n: int, classes: int) -> bool:
    if classes == 1:
        return bool(((mask > 0) & (mask != IGNORE)).any())
    return bool((mask == n).any())


def cell_labels(mask: np.ndarray, where: Geometry, cells: tuple[int, int], step: int | None, classes: int) -> Tensor:
    """A map [H, W] of 0 … N and 255, or a soft one of one class, at the cells of the network: [h, w], 255 where nothing
    is labelled. Of one class it is the share of the labelled pixels around a cell; of several the one with most of
    them, and each class that the picture shows has at least the cell with most of it. Nothing thin is lost.

    ``step``: cells lie on every so many pixels; None: they tile the picture.
    """
    known = mask != IGNORE
    kinds = [np.where(known, mask, 0)] if classes == 1 else [mask == n for n in range(1, classes + 1)]
    objects = torch.from_numpy(np.stack(kinds).astype(np.float32))
    maps = torch.cat([torch.from_numpy(known)[None].float() - objects.sum(0, keepdim=True), objects])
    maps = F.interpolate(maps[None], size=where.content, mode="area")[0]
    if step is None:
        maps = F.pad(maps, (0, where.full[1] - where.content[1], 0, where.full[0] - where.content[0]))
        shares = F.adaptive_avg_pool2d(maps, cells)
    else:  # windows around the pixels on which the cells lie
        half = step // 2
        after = [count * step - half - side for count, side in zip(cells, where.content, strict=True)]
        shares = F.avg_pool2d(F.pad(maps, (half, after[1], half, after[0])), step)
    total = shares.sum(0)
    if classes == 1:
        return torch.where(total > 1e-6, shares[1] / total.clamp_min(1e-6), float(IGNORE))
    ids = torch.where(total > 1e-6, shares.argmax(0), IGNORE)
    for n in range(1, classes + 1):
        if shares[n].any() and not (ids == n).any():
            ids.view(-1)[shares[n].argmax()] = n
    return ids


def build_support(
    features: list[Tensor], labels: list[Tensor], classes: int, whitening: Whitening | None = None
) -> Support:
    """From features [C, h, w] and labels [h, w] of pictures that may differ in size."""
    height, width = (max(f.shape[axis] for f in features) for axis in (-2, -1))
    cells = features[0].new_zeros(len(features), features[0].shape[0], height, width)
    stacked = torch.full((len(features), height, width), IGNORE, dtype=labels[0].dtype)
    for i, (feature, label) in enumerate(zip(features, labels, strict=True)):
        cells[i, :, : feature.shape[-2], : feature.shape[-1]] = feature
        stacked[i, : label.shape[0], : label.shape[1]] = label
    rows = F.normalize(cells.float(), dim=1).movedim(1, -1).flatten(0, 2)  # [M, C]
    flat = stacked.flatten().float()
    known = flat != IGNORE
    spread = whitening_of(rows[known]) if whitening is None else whitening
    white = spread.rows(rows.T)
    weights = [torch.where(known, (flat if classes == 1 else (flat == n).float()), 0.0) for n in range(1, classes + 1)]
    objects = F.normalize(torch.stack(weights) @ white, dim=1)
    return Support(cells, stacked, spread, whitening is not None, objects)


def statistic(features: Tensor, valid: Tensor, support: Support) -> Tensor:
    """[N]: mean cosine of the most similar cells of a picture [C, h, w] to each class, whitened."""
    cosines = support.objects @ support.whitening.rows(features[:, valid]).T  # [N, M]
    return cosines.topk(max(1, round(SHARE * cosines.shape[1])), dim=1).values.mean(1)


def presence_of(features: Tensor, valid: Tensor, support: Support) -> Tensor:
    """[N]: how probable it is that a picture of features [C, h, w] shows each class, if every other picture does."""
    slope, middle = KNOWN if support.known else GUESSED
    return torch.sigmoid(slope * (statistic(features, valid, support) - middle))
