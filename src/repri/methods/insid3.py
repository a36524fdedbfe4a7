"""INSID3 [CVPR 2026], which trains nothing: debiased matching, clusters of the query, and a seed that gathers clusters.

The authors use DINOv3 at 1024 pixels, whose features hold the position of a cell; the directions of position are those
of an image of one colour, and are left out where query and support are matched. Their 500 directions of 1024 suit that
network alone: ``rank`` says how many are left out here, and 0 is plain matching. Features of other networks hold other
biases, so choose the rank on base classes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from repri.features.extractor import FeatureExtractor
from repri.inference.labels import on_one_grid
from repri.runtime.errors import RepriError

from .base import Episode, Method, Prediction
from .learned import Positions, channels_of, pick_layers
from .registry import number, positions

__all__ = ["INSID3", "candidates_of", "clusters_of", "gathered", "positional_basis"]

CERTAIN = 10.0
"""Logit of the cells inside the mask; outside it is −CERTAIN."""
TOP = 0.1
"""Part of the cells that are candidates if no cell resembles the object."""


class INSID3(Method):
    """The mask is made of whole clusters of the query's cells.

    Args:
        rank: Number of directions of position that are left out in matching.
        distance: Cosine distance at which clusters are cut.
        threshold: What the score of a cluster must exceed.
        mid: Positions of the layers that are used; default: all.
    """

    name, needs_masks = "insid3", True

    def __init__(self, rank: int = 0, distance: float = 0.4, threshold: float = 0.2, mid: Positions = None):
        if isinstance(rank, bool) or not isinstance(rank, int) or rank < 0:
            raise RepriError(f"rank must be an integer of at least 0, got {rank!r}.")
        self.rank, self.mid = rank, positions("mid", mid)
        self.distance, self.threshold = number("distance", distance, above=0.0), number("threshold", threshold)
        self.basis: Tensor | None = None

    def prepare(self, extractor: FeatureExtractor) -> None:
        """Look at an image of one colour to learn the directions of position."""
        self.check(extractor)
        chosen = pick_layers(extractor.widths, self.mid, self.name)
        if self.rank:
            view = extractor.view((extractor.rule.size, extractor.rule.size), "aspect")
            grey = np.full((*view.original, 3), 128, np.uint8)
            features = extractor.extract(view.pixels(grey)[None])[0].float().cpu()
            self.basis = positional_basis(channels_of(features, chosen), self.rank)

    def predict(self, episode: Episode) -> Prediction:
        chosen = pick_layers(episode.widths or (episode.query.shape[0],), self.mid, self.name)
        if self.rank and self.basis is None:
            raise RepriError("insid3 with a rank has to look at the extractor first: use evaluate or Segmenter.")
        support = channels_of(on_one_grid(episode.support.features).float(), chosen)
        query = channels_of(episode.query.float(), chosen)
        weights = episode.support.weights("area")
        if not weights[:, 1].any():
            raise RepriError("The support labels hold no foreground: mark the object in at least one image.")
        valid = torch.ones(query.shape[-2:], dtype=torch.bool) if episode.query_valid is None else episode.query_valid
        cells = query[:, valid].T  # [N, C]
        matched, alike = candidates_of(self._debiased(support, 1), weights, self._debiased(cells, 1))
        inside = gathered(cells, clusters_of(cells, self.distance), matched, alike, self.threshold)
        logits = torch.full(query.shape[-2:], -CERTAIN)
        logits[valid] = torch.where(inside, CERTAIN, -CERTAIN)
        return Prediction(logits)

    def _debiased(self, features: Tensor, axis: int) -> Tensor:
        """Unit features without the directions of position."""
        if self.basis is not None:
            moved = features.movedim(axis, -1)
            features = (moved - moved @ self.basis @ self.basis.T).movedim(-1, axis)
        return F.normalize(features, dim=axis)

    def settings(self) -> dict[str, Any]:
        names = ("rank", "distance", "threshold", "mid")
        return {name: getattr(self, name) for name in names}


def positional_basis(features: Tensor, rank: int) -> Tensor:
    """The directions in which the cells of an image of one colour differ most.

    Args:
        features: [C, h, w] features of the image.
        rank: Number of directions, below C.

    Returns:
        [C, rank] orthonormal columns.
    """
    if rank >= features.shape[0]:
        raise RepriError(f"rank must be below the {features.shape[0]} channels of the features, got {rank}.")
    unit = F.normalize(features.flatten(1), dim=0)
    return torch.linalg.svd(unit - unit.mean(1, keepdim=True), full_matrices=False)[0][:, :rank]


def candidates_of(support: Tensor, weights: Tensor, cells: Tensor) -> tuple[Tensor, Tensor]:
    """Cells of the query that resemble the object and whose nearest cell in the support belongs to it.

    Args:
        support: [K, C, h, w] unit features.
        weights: [K, 2, h, w] weights of background and object.
        cells: [N, C] unit features of the query.

    Returns:
        bool [N] candidates, and [N] cosines to the mean of the object.
    """
    flat, sides = support.flatten(2), weights.flatten(2)
    means = (flat * sides[:, 1:]).sum(2) / sides[:, 1].sum(1)[:, None].clamp_min(1e-6)
    alike = cells @ F.normalize(means.mean(0), dim=0)
    near = alike > 0
    if not near.any():
        near = alike >= alike.topk(max(1, int(TOP * len(cells)))).values[-1]
    votes = torch.zeros(len(cells), dtype=torch.long)
    for shot, (background, foreground) in zip(flat, sides, strict=True):
        known = background + foreground > 0
        nearest = (cells @ shot[:, known]).argmax(1)
        votes += (foreground >= background)[known][nearest] if known.any() else 0
    return near & (votes >= -(-len(flat) // 2)), alike


def clusters_of(cells: Tensor, distance: float) -> Tensor:
    """Clusters of cells [N, C] by average linkage of cosine distances: numbers [N] from 0 on.

    Example:
        >>> clusters_of(torch.tensor([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0]]), 0.4).bincount()
        tensor([2, 1])
    """
    from scipy.cluster.hierarchy import fcluster, linkage

    if len(cells) == 1:
        return torch.zeros(1, dtype=torch.long)
    unit = F.normalize(cells, dim=1)
    rows, columns = torch.triu_indices(len(cells), len(cells), 1)
    apart = (1 - unit @ unit.T)[rows, columns].clamp_min(0).double().numpy()
    numbers = torch.from_numpy(fcluster(linkage(apart, "average"), distance, "distance")).long()
    first = torch.full((int(numbers.max()) + 1,), len(cells)).scatter_reduce(
        0, numbers, torch.arange(len(cells)), "amin"
    )
    return first.argsort().argsort()[numbers]  # in the order of their first cells


def gathered(cells: Tensor, clusters: Tensor, matched: Tensor, alike: Tensor, threshold: float) -> Tensor:
    """The clusters that belong to the object.

    Args:
        cells: [N, C] features of the query.
        clusters: [N] numbers of clusters.
        matched: bool [N] candidates.
        alike: [N] cosines to the mean of the object.
        threshold: What the score of a cluster must exceed: mean cosine to the object, times cosine to the seed, times
            the fraction of candidates among its cells (1 for the seed).

    Returns:
        bool [N] cells of these clusters; none if there is no candidate.
    """
    if not matched.any():
        return matched
    member = F.one_hot(clusters).to(cells)  # [N, n]
    count = member.sum(0)
    closeness, fraction = member.T @ alike / count, member.T @ matched.to(cells) / count
    seed = int(torch.where(fraction > 0, closeness, -torch.inf).argmax())
    means = F.normalize(member.T @ F.normalize(cells, dim=1), dim=1)
    fraction[seed] = 1
    return (closeness * (means @ means[seed]) * fraction > threshold)[clusters]
