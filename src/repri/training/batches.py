"""Training examples: which come when, and what is done to them, is decided by (seed, epoch, place) alone."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from repri.data.datasets.dataset import Dataset
from repri.data.datasets.folds import Protocol
from repri.data.io.images import upright_size
from repri.data.io.masks import IGNORE
from repri.features.extractor import InputRule
from repri.features.store import FeatureStore
from repri.features.view import Geometry, ResizeRule, geometry, resize, resize_mask
from repri.runtime.parallel import parallel

from .augment import Augmentation, augment, flips

__all__ = ["Batch", "Examples", "at_cells", "base_labels", "evenly", "order", "sampled"]


class Batch(NamedTuple):
    ids: list[str]
    x: Tensor
    """[B, 3, S, S] normalised images, or [B, C, s, s] stored features."""
    labels: Tensor
    """[B, S, S] 0 background, 1 … base classes, 255."""
    targets: Tensor | None = None
    """[B, C, s, s]: what a teacher gives at the network's cells, zero outside the picture."""


def base_labels(dataset: Dataset, base: Sequence[int], protocol: Protocol) -> np.ndarray:
    """Table: class id → label of the base training. Other classes are 255; so is void, save in ``official``."""
    table = np.full(max(256, max(dataset.classes) + 1), IGNORE, np.uint8)
    table[0] = 0
    table[list(base)] = np.arange(1, len(base) + 1)
    if protocol == "official":
        table[IGNORE] = 0
    return table


def order(count: int, batch: int, seed: int, epoch: int) -> list[list[int]]:
    """Places of the images of each step of an epoch: a shuffle, cut; what does not fill a batch is left out."""
    draw = random.Random(f"{seed}/{epoch}").random
    shuffled = sorted(range(count), key=[draw() for _ in range(count)].__getitem__)
    return [shuffled[i : i + batch] for i in range(0, count - batch + 1, batch)]


class Examples:
    """Pictures and labels of a split, ready for the network.

    With a ``store``, the input is what the frozen part of the network made of the picture as it is; flips are then
    applied to those features. With a ``teacher``, its features of the picture come along, brought to the cells of a
    network of ``stride`` and flipped alike. ``labelled``: whether labels are read; else they are 255.
    """

    def __init__(
        self,
        dataset: Dataset,
        ids: Sequence[str],
        table: np.ndarray,
        rule: ResizeRule,
        size: int,
        network: InputRule,
        how: Augmentation,
        seed: int,
        store: FeatureStore | None = None,
        teacher: FeatureStore | None = None,
        stride: int = 1,
        labelled: bool = True,
    ):
        self.dataset, self.ids, self.table, self.rule, self.size = dataset, list(ids), table, rule, size
        self.network, self.how, self.seed, self.store = network, how, seed, store
        self.teacher, self.stride, self.labelled = teacher, stride, labelled
        self.multiple = network.multiple if network.multiple > 1 or rule == "clean" else None

    def __len__(self) -> int:
        return len(self.ids)

    def image(self, place: int) -> Path:
        return self.dataset[self.ids[place]].image

    def batches(self, steps: Sequence[Sequence[int]], epoch: int, workers: int | None = None) -> Iterator[Batch]:
        """One batch for each list of places, read ahead."""

        made = parallel(lambda place: self.example(place, epoch), [p for places in steps for p in places], workers)
        for places in steps:
            x, y, targets = zip(*(next(made) for _ in places), strict=True)
            ids = [self.ids[place] for place in places]
            yield Batch(ids, torch.stack(x), torch.stack(y), None if self.teacher is None else torch.stack(targets))

    def example(self, place: int, epoch: int) -> tuple[Tensor, Tensor, Tensor | None]:
        """Input, labels and targets of one image in one epoch."""
        try:
            return self._example(place, epoch)
        except (ValueError, OSError) as error:
            raise ValueError(f"training stopped at the image {self.ids[place]}: {error}") from error

    def _example(self, place: int, epoch: int) -> tuple[Tensor, Tensor, Tensor | None]:
        id = self.ids[place]
        side = -(-self.size // self.network.multiple) * self.network.multiple
        if self.store is None:
            if self.labelled:
                image, mask = self.dataset.pair(id)
                labels = self.table[mask]
            else:
                image = self.dataset.image(id)
                labels = np.full(image.shape[:2], IGNORE, np.uint8)
            image, labels = augment(image, labels, self.how, self.seed, epoch, place)
            item = resize(image, labels, self.rule, self.size, self.multiple)
            assert item.mask is not None
            mean, std = (torch.tensor(values).view(3, 1, 1) for values in (self.network.mean, self.network.std))
            x, turned = _squared((item.image - mean) / std, side), flips(self.how, self.seed, epoch, place)
            return x, _padded(item.mask, side), self._targets(id, item.geometry, side, turned)
        if self.labelled:
            labels = self.table[self.dataset.mask(id)]
        else:
            labels = np.full(upright_size(self.dataset[id].image), IGNORE, np.uint8)
        where = geometry((labels.shape[0], labels.shape[1]), self.rule, self.size, self.multiple)
        features = self.store.get(self.dataset[id].image).float()
        x, y = _squared(features, max(features.shape[-2:])), _padded(resize_mask(labels, where), side)
        return self._flipped(x, y, self._targets(id, where, side), epoch, place)

    def _targets(self, id: str, where: Geometry, side: int, flipped: tuple[bool, bool] = (False, False)):
        """[C, s, s] or None: what the teacher gives at the cells of the network's square."""
        if self.teacher is None:
            return None
        features = self.teacher.get(self.dataset[id].image).float()
        found = at_cells(features, self.teacher.geometry(where.original), where.content, self.stride, flipped)
        cells = -(-side // self.stride)
        return F.pad(found, (0, cells - found.shape[-1], 0, cells - found.shape[-2]))

    def _flipped(
        self, x: Tensor, y: Tensor, targets: Tensor | None, epoch: int, place: int
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Features, labels and targets as they would be of a flipped picture, if the network were symmetric."""
        mirrored, upside_down = flips(self.how, self.seed, epoch, place)
        axes = [-1] * mirrored + [-2] * upside_down
        if not axes:
            return x, y, targets
        return x.flip(axes), y.flip(axes), None if targets is None else targets.flip(axes)


def at_cells(
    features: Tensor, theirs: Geometry, content: tuple[int, int], stride: int, flipped: tuple[bool, bool]
) -> Tensor:
    """Features [C, h, w] of one network, where the cells of another are: [C, ⌈H / stride⌉, ⌈W / stride⌉].

    The cells of the first tile its picture (``theirs``); those of the other, which sees the same picture as H×W
    pixels (``content``) or that picture ``flipped`` (left ↔ right, top ↔ bottom), lie on every ``stride``-th pixel.
    """
    axes = []
    for axis, turned in ((0, flipped[1]), (1, flipped[0])):
        share = (torch.arange(0, content[axis], stride) + 0.5) / content[axis]
        share = 1 - share if turned else share
        axes.append(2 * share * theirs.content[axis] / theirs.full[axis] - 1)
    y, x = torch.meshgrid(*axes, indexing="ij")
    grid = torch.stack([x, y], -1)[None]
    return F.grid_sample(features[None], grid, mode="bilinear", padding_mode="border", align_corners=False)[0]


def _squared(x: Tensor, side: int) -> Tensor:
    """[C, h, w] → [C, side, side], the last row and column repeated."""
    return F.pad(x[None], (0, side - x.shape[-1], 0, side - x.shape[-2]), mode="replicate")[0]


def _padded(labels: Tensor, side: int) -> Tensor:
    """[h, w] → [side, side], what was added is 255."""
    return F.pad(labels, (0, side - labels.shape[-1], 0, side - labels.shape[-2]), value=IGNORE)


def sampled(labels: Tensor, every: int, aligned: bool) -> Tensor:
    """[B, H, W] → every so many pixels: from corner to corner where features lie on corners, else block centres."""
    if every == 1:
        return labels
    start = 0 if aligned else every // 2
    return labels[:, start::every, start::every]


def evenly(ids: Sequence[str], most: int | None) -> list[str]:
    """At most so many of a list, evenly taken."""
    if most is None or most >= len(ids):
        return list(ids)
    return [ids[i * len(ids) // most] for i in range(most)]
