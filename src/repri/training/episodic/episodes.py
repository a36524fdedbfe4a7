"""Episodes, ready for a method: which come when, and which images are flipped, follows from the seed alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from repri.data.datasets.dataset import Dataset
from repri.data.io.masks import IGNORE
from repri.data.tasks.tasks import Task, TaskList
from repri.features.store import FeatureStore
from repri.methods.learned import Shot
from repri.runtime.errors import RepriError
from repri.runtime.parallel import parallel
from repri.training.augment import Flip, Flips
from repri.training.split import base_labels

__all__ = ["EpisodeBatch", "Episodes", "LoadedEpisode"]

NO_FLIPS = Flips()


class LoadedEpisode(NamedTuple):
    """One episode with its features and masks."""

    task: Task
    """The class and the names of the images."""
    place: int
    """Its place in the epoch."""
    shots: list[Shot]
    """The support."""
    query: Shot
    """The query with its truth."""


class EpisodeBatch(NamedTuple):
    """The episodes of one step that one process takes."""

    episodes: list[LoadedEpisode]

    @property
    def ids(self) -> list[str]:
        """Names of the images."""
        return [id for episode in self.episodes for id in (*episode.task.support, episode.task.query)]


@dataclass(frozen=True)
class Episodes:
    """A list of episodes over stored features."""

    dataset: Dataset
    """Images, and masks in which only base classes are labelled."""
    tasks: TaskList
    """The episodes; each epoch is one of its runs."""
    store: FeatureStore
    """Where features are kept."""
    flips: Flips = NO_FLIPS
    """Which flips occur: stored features and masks are flipped alike."""
    seed: int = 0
    """Seed of the flips."""

    def __len__(self) -> int:
        """Episodes in an epoch."""
        return len(self.tasks.runs[0])

    def batches(self, steps: Sequence[Sequence[int]], epoch: int) -> Iterator[EpisodeBatch]:
        """One batch for each list of places, read ahead by threads.

        Args:
            steps: Places of the episodes of each step.
            epoch: The epoch.

        Yields:
            The batch of each step.
        """
        loaded = parallel(lambda place: self.load(place, epoch), [place for places in steps for place in places])
        for places in steps:
            yield EpisodeBatch([next(loaded) for _ in places])

    def load(self, place: int, epoch: int = 0) -> LoadedEpisode:
        """Read one episode of an epoch."""
        task = self.tasks.runs[epoch][place]
        images = [*task.support, task.query]
        flips = [self.flips.draw(self.seed, epoch, place * len(images) + i) for i in range(len(images))]
        shots = [self._shot(id, task.class_id, flip) for id, flip in zip(images, flips, strict=True)]
        return LoadedEpisode(task, place, shots[:-1], shots[-1])

    def _shot(self, id: str, class_id: int, flip: Flip) -> Shot:
        """Features and masks are flipped as if the extractor were symmetric."""
        try:
            mask = self.dataset.mask(id)
            features = self.store.get(self.dataset[id].image)
        except (ValueError, OSError) as error:
            raise RepriError(f"Training stopped at the image {id}: {error}") from error
        view = self.store.view((mask.shape[0], mask.shape[1]))
        binary = np.where(mask == IGNORE, IGNORE, mask == class_id).astype(np.uint8)
        maps = (features, view.mask(binary), view.mask(self._labels[mask]))
        features, pixels, classes = (m.flip(flip.axes) for m in maps) if flip.axes else maps
        return Shot(features, pixels, view.grid, classes)

    @cached_property
    def _labels(self) -> np.ndarray:
        """Class id → 0 for background, 1 … for base classes, 255 for everything else."""
        return base_labels(self.dataset, list(self.tasks.classes), void_is_background=False)
