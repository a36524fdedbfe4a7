"""PPNet [Liu et al., "Part-aware Prototype Network for Few-Shot Semantic Segmentation", ECCV 2020], without its
unlabelled images.

PANet with several prototypes: k-means parts of the object and of the background, each shifted towards the class mean;
the best part of each side counts. As in :mod:`repri.methods.panet`, features are frozen and an embedding is trained.

Where the authors' code and this file differ: they cluster the cells of doubled features under the nearest mask, and
here cells are clustered with the weights of PANet's means, so that one part is PANet; they draw starts with replacement
and without a seed, and here starts are distinct and seeded; their empty clusters become zero vectors, and here they are
left out. Their semantic loss trains four dilated convolutions; here it is one linear classifier on the embedding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

from repri.inference.labels import IGNORE
from repri.runtime.errors import RepriError

from .learned import Lesson, Positions, Shot, pick_layers
from .panet import PANet, PANetNetwork, masked_means
from .registry import number, whole_number

__all__ = ["PPNet", "PPNetNetwork", "kmeans"]

ROUNDS = 10
"""Assignments of the k-means."""


class PPNet(PANet):
    """logit = 20·[maxᵢ cos(z, fᵢ + λf) − maxᵢ cos(z, gᵢ + λg)], with parts fᵢ and gᵢ and means f and g.

    Args:
        parts: Largest number of parts of each side.
        shift: λ.
        seed: Seed of the starts of the k-means.
        width: Channels of the embedding.
        align: Weight of the alignment loss.
        semantic: Weight of the semantic loss: the embedding must also tell the base classes apart (the authors: 0.1).
        classes: Number of base classes, for the semantic loss.
        mid: Positions of the layers that are used; default: all.
    """

    name = "ppnet"

    def __init__(
        self,
        parts: int = 5,
        shift: float = 0.8,
        seed: int = 0,
        width: int = 512,
        align: float = 1.0,
        semantic: float = 0.0,
        classes: int = 15,
        mid: Positions = None,
    ):
        super().__init__(width, align, mid)
        self.parts, self.shift, self.seed = whole_number("parts", parts), number("shift", shift), seed
        self.semantic, self.classes = number("semantic", semantic), whole_number("classes", classes)

    def build(self, widths: tuple[int, ...]) -> PPNetNetwork:
        return self._make(widths, self.width)

    def untrained(self, widths: tuple[int, ...]) -> PPNetNetwork:
        return self._make(widths, None)

    def _make(self, widths: tuple[int, ...], width: int | None) -> PPNetNetwork:
        return PPNetNetwork(widths, pick_layers(widths, self.mid, self.name), width, self)

    def options(self) -> dict[str, Any]:
        names = ("parts", "shift", "seed", "width", "align", "semantic", "classes", "mid")
        return {name: getattr(self, name) for name in names}


class PPNetNetwork(PANetNetwork):
    """The embedding, and cosines to parts.

    Args:
        widths: Number of channels of each layer of the features.
        mid: Channels that are used.
        width: Channels of the embedding; None: no embedding.
        settings: The method, whose settings decide the rest.
    """

    def __init__(self, widths: Sequence[int], mid: Sequence[slice], width: int | None, settings: PPNet):
        super().__init__(widths, mid, width, settings.align)
        self.parts, self.shift, self.seed = settings.parts, settings.shift, settings.seed
        self.semantic = settings.semantic
        named = settings.classes + 1
        self.classify = nn.Conv2d(width, named, 1) if width is not None and settings.semantic else None

    def prototypes(self, embedded: Tensor, weights: Tensor) -> Sequence[Tensor]:
        means = masked_means(embedded, weights).mean(0)
        cells, flat = embedded.movedim(1, 3).flatten(0, 2), weights.movedim(1, 0).flatten(1)
        return [
            self._parts(cells[side > 0], side[side > 0]) + self.shift * mean if (side > 0).any() else mean[None]
            for side, mean in zip(flat, means, strict=True)
        ]

    def _parts(self, cells: Tensor, weights: Tensor) -> Tensor:
        """Means [P, C] of the clusters of cells [N, C], with a gradient."""
        which = kmeans(cells.detach(), weights, self.parts, self.seed)
        sums = F.one_hot(which).to(cells) * weights[:, None]
        return sums.T @ cells / sums.sum(0)[:, None]

    def loss(self, lesson: Lesson) -> Tensor:
        """PANet's losses, and the semantic loss."""
        loss = super().loss(lesson)
        if self.classify is None:
            return loss
        named = [self._semantic(self.classify, shot) for shot in (*lesson.shots, lesson.query)]
        return loss + self.semantic * torch.stack(named).mean()

    def _semantic(self, classify: nn.Conv2d, shot: Shot) -> Tensor:
        if shot.classes is None:
            raise RepriError("The semantic loss of ppnet needs the base classes of every pixel: set semantic to 0.")
        logits = classify(F.relu(self.embed(shot.features[None])))[0]
        rows, columns = (matrix.to(logits) for matrix in shot.grid.spread())
        known = shot.classes != IGNORE
        full = (rows @ logits @ columns.T)[:, known]
        return F.cross_entropy(full.T, shot.classes[known].long()) if known.any() else 0 * logits.sum()


def kmeans(cells: Tensor, weights: Tensor, parts: int, seed: int = 0, starts: Tensor | None = None) -> Tensor:
    """Clusters of weighted cells, by ten rounds of Lloyd's algorithm.

    Args:
        cells: [N, C].
        weights: [N] above 0.
        parts: Largest number of clusters.
        seed: Seed of the starts, which are distinct cells. They depend neither on the order of the cells nor on copies.
        starts: [P, C] starts instead.

    Returns:
        [N] numbers of the clusters, from 0 on, none of them empty.

    Example:
        >>> kmeans(torch.tensor([[0.0], [0.1], [5.0], [5.1]]), torch.ones(4), 2).bincount()
        tensor([2, 2])
    """
    draw = torch.Generator().manual_seed(seed)
    if starts is None:
        axis = torch.randn(cells.shape[1], generator=draw).to(cells)
        places = (cells @ axis).argsort(stable=True)
        ordered = cells[places]
        new = torch.ones(len(cells), dtype=torch.bool, device=cells.device)
        new[1:] = (ordered[1:] != ordered[:-1]).any(1)
        distinct = ordered[new]
        starts = distinct[torch.randperm(len(distinct), generator=draw)[:parts].to(cells.device)]
    centres = starts
    which = torch.cdist(cells, centres).argmin(1)
    for _ in range(ROUNDS - 1):
        sums = F.one_hot(which, len(centres)).to(cells) * weights[:, None]
        total = sums.sum(0)
        centres = (sums.T @ cells)[total > 0] / total[total > 0, None]
        which = torch.cdist(cells, centres).argmin(1)
    return which.unique(return_inverse=True)[1]
