"""Training examples: which come when, and what is done to them, is decided by (seed, epoch, place) alone."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from repri.data.datasets.dataset import Dataset
from repri.data.io.images import upright_size
from repri.data.io.masks import IGNORE
from repri.features.store import FeatureStore
from repri.runtime.errors import RepriError
from repri.runtime.parallel import parallel

from .augment import Flip, Flips
from .square import Square

__all__ = ["Batch", "Example", "Examples", "order", "sampled", "thinned"]


NO_FLIPS = Flips()


class Example(NamedTuple):
    """One image, ready for the network; or several, with a first axis B."""

    x: Tensor
    """[3, S, S] normalised image, or [C, s, s] stored features."""
    labels: Tensor
    """[S, S] with 0 background, 1 … base classes, 255."""
    targets: Tensor | None = None
    """[C, s, s] a teacher's features at the network's cells, zero outside the image."""

    def map(self, change: Callable[[Tensor], Tensor]) -> Example:
        """The same change to each tensor."""
        x, labels, targets = self
        return Example(change(x), change(labels), None if targets is None else change(targets))


class Batch(NamedTuple):
    """Images of one step."""

    ids: list[str]
    """Names of the images."""
    x: Tensor
    """[B, 3, S, S] normalised images, or [B, C, s, s] stored features."""
    labels: Tensor
    """[B, S, S] with 0 background, 1 … base classes, 255."""
    targets: Tensor | None = None
    """[B, C, s, s] a teacher's features at the network's cells, zero outside the image."""


@dataclass(frozen=True)
class Examples:
    """Images and labels of a split, ready for the network.

    With stored ``features``, the input is what the frozen part of the network made of the image as it is, and flips are
    applied to those features. With a ``teacher``, its features come along, at the network's cells and flipped alike.
    """

    dataset: Dataset
    """Where images and masks are read."""
    ids: list[str]
    """Names of the images, in their order."""
    table: np.ndarray | None
    """Class id → label; None: masks are not read, and all labels are 255."""
    square: Square
    """How images are resized."""
    features: FeatureStore | None = None
    """Store of what the frozen part of the network gives, if a part is frozen."""
    teacher: FeatureStore | None = None
    """Store of the teacher's features, if there is a teacher."""
    flips: Flips = NO_FLIPS
    """Which flips occur."""
    seed: int = 0
    """Seed of the flips."""

    def __len__(self) -> int:
        return len(self.ids)

    def path(self, place: int) -> Path:
        """File of the image at a place of the list."""
        return self.dataset[self.ids[place]].image

    def batches(self, steps: Sequence[Sequence[int]], epoch: int, workers: int | None = None) -> Iterator[Batch]:
        """One batch for each list of places, read ahead by threads.

        Args:
            steps: Places of the images of each step.
            epoch: The epoch, on which flips depend.
            workers: Number of threads; None: as many as suit the machine.

        Yields:
            The batch of each step.
        """
        examples = parallel(lambda place: self.example(place, epoch), [p for places in steps for p in places], workers)
        for places in steps:
            x, labels, targets = zip(*(next(examples) for _ in places), strict=True)
            together = None if self.teacher is None else torch.stack(targets)
            yield Batch([self.ids[place] for place in places], torch.stack(x), torch.stack(labels), together)

    def example(self, place: int, epoch: int) -> Example:
        """Input, labels and targets of one image in one epoch."""
        flip = self.flips.draw(self.seed, epoch, place)
        try:
            return self._from_image(place, flip) if self.features is None else self._from_features(place, flip)
        except (ValueError, OSError) as error:
            raise RepriError(f"Training stopped at the image {self.ids[place]}: {error}") from error

    def _from_image(self, place: int, flip: Flip) -> Example:
        """An image is flipped before it is resized."""
        id = self.ids[place]
        if self.table is None:
            image = self.dataset.image(id)
            labels = _unlabelled((image.shape[0], image.shape[1]))
        else:
            image, mask = self.dataset.pair(id)
            labels = self.table[mask]
        image = image[:: -1 if flip.upside_down else 1, :: -1 if flip.mirrored else 1]
        labels = labels[:: -1 if flip.upside_down else 1, :: -1 if flip.mirrored else 1]
        targets = self._targets(place, (labels.shape[0], labels.shape[1]), flip)
        return Example(self.square.pixels(image), self.square.labels(labels), targets)

    def _from_features(self, place: int, flip: Flip) -> Example:
        """Features, labels and targets are flipped as if the network were symmetric."""
        assert self.features is not None
        id = self.ids[place]
        labels = (
            _unlabelled(upright_size(self.path(place))) if self.table is None else self.table[self.dataset.mask(id)]
        )
        x = self.square.features(self.features.get(self.path(place)).float())
        targets = self._targets(place, (labels.shape[0], labels.shape[1]), Flip())
        example = Example(x, self.square.labels(labels), targets)
        return example.map(lambda part: part.flip(flip.axes)) if flip.axes else example

    def _targets(self, place: int, original: tuple[int, int], flip: Flip) -> Tensor | None:
        if self.teacher is None:
            return None
        return self.square.targets(self.teacher.get(self.path(place)).float(), self.teacher, original, flip)


def _unlabelled(size: tuple[int, int]) -> np.ndarray:
    return np.full(size, IGNORE, np.uint8)


def order(count: int, batch: int, seed: int, epoch: int) -> list[list[int]]:
    """Places of the images of each step of an epoch: a shuffled list, cut into batches.

    Args:
        count: Number of images.
        batch: Images in a step.
        seed: Seed of the run.
        epoch: Number of the epoch.

    Returns:
        One list for each step; images that do not fill a batch are left out.

    Example:
        >>> order(5, 2, seed=0, epoch=0)
        [[0, 3], [4, 1]]
    """
    draw = random.Random(f"{seed}/{epoch}").random
    shuffled = sorted(range(count), key=[draw() for _ in range(count)].__getitem__)
    return [shuffled[i : i + batch] for i in range(0, count - batch + 1, batch)]


def sampled(labels: Tensor, every: int, aligned: bool) -> Tensor:
    """Labels [B, H, W] at every n-th pixel in both directions.

    Args:
        labels: [B, H, W].
        every: n.
        aligned: Whether outer cells lie on outer pixels: pixels are then taken from corner to corner, otherwise at the
            centres of n×n blocks.

    Returns:
        [B, ⌈H/n⌉, ⌈W/n⌉].
    """
    if every == 1:
        return labels
    start = 0 if aligned else every // 2
    return labels[:, start::every, start::every]


def thinned(batch: Batch, every: int, stride: int, seed: int) -> Batch:
    """Every n-th cell in both directions, and the label at its centre.

    Args:
        batch: A batch of stored features.
        every: n.
        stride: Pixels between cells.
        seed: Seed of the first cell, which all processes have in common.

    Returns:
        The smaller batch.
    """
    if every == 1:
        return batch
    draw = torch.Generator().manual_seed(seed)
    top, left = (int(torch.randint(every, (), generator=draw)) for _ in range(2))
    cells = (..., slice(top, None, every), slice(left, None, every))
    return batch._replace(x=batch.x[cells], labels=sampled(batch.labels, stride, aligned=False)[cells])
