"""The annotated pictures as one support set, and whether a class is in another picture at all."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from repri.data.io.masks import IGNORE
from repri.features.view import Geometry
from repri.inference.problem import on_one_grid

__all__ = ["Support", "build_support", "cell_labels", "presence_of", "shows", "statistic"]

SHARE = 0.02
"""Of a picture's cells, the most similar ones, that stand for the object if it is there."""
SLOPE, MIDDLE = 6.7, 0.31
"""Of the score: ``benchmarks/own_images.py presence``."""


class Support(NamedTuple):
    features: Tensor
    """[K, C, h, w], zero where a picture has no cell."""
    labels: Tensor
    """[K, h, w]: 0 … N and 255, or soft values of the one class."""
    white: Tensor
    """[K, r, h, w] whitened features, by which kinds of objects are told apart."""
    objects: Tensor
    """[N, r] their mean directions over the classes' cells."""


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


def build_support(features: list[Tensor], white: list[Tensor], labels: list[Tensor], classes: int) -> Support:
    """From features [C, h, w], whitened ones [r, h, w] and labels [h, w] of pictures that may differ in size."""
    cells, whitened, stacked = on_one_grid(features), on_one_grid(white), on_one_grid(labels, IGNORE)
    flat, rows = stacked.flatten().float(), whitened.movedim(1, -1).flatten(0, 2)  # [M], [M, r]
    known = flat != IGNORE
    weights = [torch.where(known, (flat if classes == 1 else (flat == n).float()), 0.0) for n in range(1, classes + 1)]
    return Support(cells, stacked, whitened, F.normalize(torch.stack(weights) @ rows, dim=1))


def statistic(white: Tensor, valid: Tensor, support: Support) -> Tensor:
    """[N]: mean cosine to each class of those cells of a picture [r, h, w], whitened, that are most similar to it."""
    cosines = support.objects @ white[:, valid]  # [N, M]
    return cosines.topk(max(1, round(SHARE * cosines.shape[1])), dim=1).values.mean(1)


def presence_of(white: Tensor, valid: Tensor, support: Support) -> Tensor:
    """[N]: how probable it is that a picture shows each class, if every other picture does."""
    return torch.sigmoid(SLOPE * (statistic(white, valid, support) - MIDDLE))
