"""Validation of a method: mIoU on tasks of base classes in validation images."""

from __future__ import annotations

import torch
from torch import Tensor

from repri.data.io.masks import IGNORE
from repri.features.labels import cell_weights
from repri.methods import Episode, LearnedMethod, Support
from repri.runtime.distributed import World

from .episodes import Episodes, LoadedEpisode

__all__ = ["predicted", "validate_tasks"]


def validate_tasks(method: LearnedMethod, episodes: Episodes, world: World) -> float:
    """Score a method on the first run of a task list, divided among the processes.

    Args:
        method: The method with its network, which is left in evaluation mode.
        episodes: The tasks, without flips.
        world: The processes.

    Returns:
        mIoU in percent over the classes: Σ I / Σ U of each, at the size of the network's input.
    """
    assert method.network is not None
    method.network.eval()
    classes = list(episodes.tasks.classes)
    counts = torch.zeros(len(classes), 2, dtype=torch.int64)
    mine = world.share(list(range(len(episodes))))
    for batch in episodes.batches([[place] for place in mine], 0):
        (episode,) = batch.episodes
        mask, foreground = episode.query.mask, predicted(method, episode, episodes.store.extractor.widths)
        truth, known = mask == 1, mask != IGNORE
        hit, union = (truth & foreground).sum(), (truth | (foreground & known)).sum()
        counts[classes.index(episode.task.class_id)] += torch.stack([hit, union])
    hits, unions = torch.stack(world.gather(counts)).sum(0).T
    there = unions > 0
    return 100 * float((hits[there] / unions[there]).mean())


def predicted(method: LearnedMethod, episode: LoadedEpisode, widths: tuple[int, ...]) -> Tensor:
    """bool [H, W]: where a method sees the object, at the size of the network's input."""
    shots, query = episode.shots, episode.query
    labels = [_labels(cell_weights(shot.mask, shot.grid, "area")) for shot in shots]
    support = Support([s.features for s in shots], labels, [s.mask for s in shots], [s.grid for s in shots])
    logits = method.predict(Episode(support, query.features, widths=widths)).logits
    return query.grid.upsample(logits) > 0


def _labels(weights: Tensor) -> Tensor:
    """[h, w] fraction of the object among the labelled pixels of each cell, 255 where none is labelled."""
    known = weights.sum(0)
    return torch.where(known > 1e-6, weights[1] / known.clamp_min(1e-6), float(IGNORE))
