"""The annotated pictures as one support set, and whether a class is in another picture at all."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from repri.data.images import IGNORE
from repri.data.resize import Geometry

__all__ = ["Support", "build_support", "cell_labels", "presence_of", "shows", "statistic"]

PRESENT_SHARE, PRESENT_SLOPE, PRESENT_MIDDLE = 0.02, 8.0, 0.75


class Support(NamedTuple):
    features: Tensor
    """[K, C, h, w], zero where a picture has no cell."""
    labels: Tensor
    """[K, h, w]: 0 … N and 255, or soft values of the one class."""
    prototypes: Tensor
    """[N + 1, C] mean directions of the background and the classes."""
    margins: Tensor
    """[N, 2] mean of cos(z, wₙ) − cos(z, v) over the class's own cells, and over the background's."""


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


def build_support(features: list[Tensor], labels: list[Tensor], classes: int) -> Support:
    """From features [C, h, w] and labels [h, w] of pictures that may differ in size."""
    height, width = (max(f.shape[axis] for f in features) for axis in (-2, -1))
    cells = features[0].new_zeros(len(features), features[0].shape[0], height, width)
    stacked = torch.full((len(features), height, width), IGNORE, dtype=labels[0].dtype)
    for i, (feature, label) in enumerate(zip(features, labels, strict=True)):
        cells[i, :, : feature.shape[-2], : feature.shape[-1]] = feature
        stacked[i, : label.shape[0], : label.shape[1]] = label
    return _summary(cells, stacked, classes)


def _summary(features: Tensor, labels: Tensor, classes: int) -> Support:
    rows = F.normalize(features.float(), dim=1).movedim(1, -1).flatten(0, 2)  # [M, C]
    flat = labels.flatten().float()
    known = flat != IGNORE
    weights = [torch.where(known, (flat if classes == 1 else (flat == n).float()), 0.0) for n in range(1, classes + 1)]
    background = torch.where(known, 1 - torch.stack(weights).sum(0), 0.0).clamp_min(0)
    means = torch.stack([(w[:, None] * rows).sum(0) / w.sum().clamp_min(1e-12) for w in (background, *weights)])
    prototypes = F.normalize(means, dim=1)
    margins = []
    for n, w in enumerate(weights, 1):
        margin = rows @ (prototypes[n] - prototypes[0])
        margins.append(torch.stack([(margin * v).sum() / v.sum().clamp_min(1e-12) for v in (w, background)]))
    return Support(features, labels, prototypes, torch.stack(margins))


def statistic(features: Tensor, valid: Tensor, support: Support) -> Tensor:
    """[N]: how far the most similar cells of a picture [C, h, w] are on the way from the support's background (0) to
    its objects (1), by cos(z, wₙ) − cos(z, v)."""
    rows = F.normalize(features.float(), dim=0)[:, valid]  # [C, M]
    margin = (support.prototypes[1:] - support.prototypes[:1]) @ rows  # [N, M]
    top = margin.topk(max(1, round(PRESENT_SHARE * margin.shape[1])), dim=1).values.mean(1)
    inside, outside = support.margins.unbind(1)
    return (top - outside) / (inside - outside).clamp_min(1e-6)


def presence_of(features: Tensor, valid: Tensor, support: Support) -> Tensor:
    """[N]: how probable it is that each class is in a picture of features [C, h, w]."""
    return torch.sigmoid(PRESENT_SLOPE * (statistic(features, valid, support) - PRESENT_MIDDLE))
