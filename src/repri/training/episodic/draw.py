"""What a person watches during a run: a few validation tasks with the method's predictions."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from repri.data.io.images import upright_size
from repri.methods import LearnedMethod
from repri.training.watch import drawn_row, some_places

from .episodes import Episodes
from .validate import predicted

__all__ = ["draw_tasks"]


def draw_tasks(method: LearnedMethod, episodes: Episodes) -> np.ndarray:
    """Rows of the first support image and its mask, then the query, its mask and the prediction.

    Args:
        method: The method with its network.
        episodes: The tasks, of which a few are drawn.

    Returns:
        [H, W, 3].
    """

    def cut(id: str, labels: Tensor) -> np.ndarray:
        """Labels [H, W] at the network's size, without the padding."""
        height, width = episodes.store.view(upright_size(episodes.dataset[id].image)).content
        return labels[:height, :width].byte().cpu().numpy()

    rows = []
    for place in some_places(len(episodes)):
        episode = episodes.load(place)
        first, query = episode.task.support[0], episode.task.query
        mask = predicted(method, episode, episodes.store.extractor.widths)
        support = drawn_row(episodes.dataset.image(first), [cut(first, episode.shots[0].mask)])
        answer = drawn_row(episodes.dataset.image(query), [cut(query, m) for m in (episode.query.mask, mask)])
        rows.append(np.concatenate([support, answer], 1))
    return np.concatenate(rows)
