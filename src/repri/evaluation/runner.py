"""From task lists to counts: features from the store, a method's logits, upsampled and scored."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from repri.data.datasets.dataset import Dataset
from repri.data.datasets.folds import Protocol
from repri.data.io.masks import IGNORE
from repri.data.tasks.tasks import Task, TaskList
from repri.features.store import Extractor, FeatureStore
from repri.features.view import Geometry, on_corners, resize_mask, restore, step_of
from repri.methods import Episode, Method, shot_labels, true_proportion
from repri.runtime.distributed import World
from repri.runtime.parallel import parallel

from .metrics import Counts, count_pixels

MASKS_KEPT = 512
"""In memory: a fold's images come up again and again."""

__all__ = ["Outcome", "TaskScore", "images_of", "run_tasks"]


class TaskScore(NamedTuple):
    """What one task gave."""

    pixels: tuple[int, int, int, int]
    initial_error: float
    """π₁⁽⁰⁾ / π*₁ − 1; NaN if the method has no π."""
    final_error: float


class Outcome(NamedTuple):
    """What all tasks of a list gave, in the list's order."""

    counts: Counts
    errors: np.ndarray
    """[N, 2] relative error of π at the start and at the end."""


class Mask(NamedTuple):
    """One class in one image: 0, 1 and 255."""

    labels: Tensor
    """[h, w] at feature size, or ``full`` if that would lose the object."""
    full: Tensor
    """[H, W] at the network's size."""
    original: Tensor
    """[H, W] at its own."""
    where: Geometry
    """How the two belong together."""


def images_of(dataset: Dataset, tasks: TaskList) -> list:
    """Every picture of a task list once, in the data set's order."""
    wanted = {id for run in tasks.runs for task in run for id in (task.query, *task.support)}
    return [sample.image for sample in dataset.samples if sample.id in wanted]


def run_tasks(
    dataset: Dataset,
    tasks: TaskList,
    method: Method,
    store: FeatureStore,
    protocol: Protocol = "clean",
    world: World | None = None,
    progress: Callable[[int, int, Counts], None] | None = None,
) -> Outcome:
    """Every task of a list once; with several processes each takes its share and all get the whole outcome."""
    world = world or World()
    flat = [(run, task) for run, members in enumerate(tasks.runs) for task in members]
    mine = world.share(list(range(len(flat))))
    found: list[TaskScore] = []
    for score in _scores(dataset, [flat[i][1] for i in mine], method, store, protocol):
        found.append(score)
        if progress and (len(found) % 50 == 0 or len(found) == len(mine)):
            progress(len(found), len(mine), _counts([flat[i] for i in mine[: len(found)]], found))
    every: list[TaskScore | None] = [None] * len(flat)
    for rank, part in enumerate(world.gather(found)):
        every[rank :: world.size] = part
    whole = [score for score in every if score is not None]
    errors = np.array([(score.initial_error, score.final_error) for score in whole])
    return Outcome(_counts(flat, whole), errors)


def _counts(flat: list[tuple[int, Task]], found: list[TaskScore]) -> Counts:
    run, class_id = np.array([run for run, _ in flat]), np.array([task.class_id for _, task in flat])
    return Counts(run, class_id, np.array([score.pixels for score in found], np.int64).reshape(-1, 4))


def _scores(
    dataset: Dataset, tasks: list[Task], method: Method, store: FeatureStore, protocol: Protocol
) -> Iterator[TaskScore]:
    @lru_cache(MASKS_KEPT)
    def mask(id: str, class_id: int) -> Mask:
        cells = store.get(dataset[id].image).shape[-2:]
        return _mask(dataset, id, class_id, store, (cells[0], cells[1]))

    @lru_cache(MASKS_KEPT)
    def share(id: str, class_id: int) -> float:
        cells = store.get(dataset[id].image).shape[-2:]
        return _true_share(mask(id, class_id).full, (cells[0], cells[1]))

    def load(task: Task) -> tuple[list[Tensor], list[Mask], float]:
        ids = (*task.support, task.query)
        features, masks = [store.get(dataset[id].image) for id in ids], [mask(id, task.class_id) for id in ids]
        return features, masks, share(task.query, task.class_id)

    for loaded in parallel(load, tasks, workers=1):
        yield _score(*loaded, method, store.extractor, protocol)


def _mask(dataset: Dataset, id: str, class_id: int, store: FeatureStore, cells: tuple[int, int]) -> Mask:
    ids = dataset.mask(id)
    binary = (ids == class_id).astype(np.uint8)
    binary[ids == IGNORE] = IGNORE
    where = store.geometry((ids.shape[0], ids.shape[1]))
    full = resize_mask(binary, where)
    labels = shot_labels(full, cells)
    return Mask(labels if (labels == 1).any() else full, full, torch.from_numpy(binary), where)


def _true_share(mask: Tensor, cells: tuple[int, int]) -> float:
    """π*₁ at feature size, strictly between 0 and 1."""
    edge = 1e-6
    return min(max(float(true_proportion(mask[None], cells)[0]), edge), 1 - edge)


def _score(
    features: list[Tensor],
    masks: list[Mask],
    proportion: float,
    method: Method,
    extractor: Extractor,
    protocol: Protocol,
) -> TaskScore:
    *support, query = features
    wanted = masks[-1]
    known = proportion if method.oracle else None
    labels, background = [m.labels for m in masks[:-1]], getattr(extractor, "background", None)
    out = method.predict(Episode(support, labels, query, _valid(wanted, protocol), known, background))
    cells, full, stride = (query.shape[-2], query.shape[-1]), wanted.where.full, extractor.stride
    if protocol == "clean":
        logits = restore(out.logits, wanted.where, step_of(extractor.strided, cells, full, stride))
    else:
        aligned = protocol == "official" or on_corners(cells, full, stride)
        logits = F.interpolate(out.logits[None, None], full, mode="bilinear", align_corners=aligned)[0, 0]
    first, last = (
        float("nan") if pi is None else pi / proportion - 1 for pi in (out.initial_proportion, out.proportion)
    )
    truth = wanted.original if protocol == "clean" else wanted.full
    return TaskScore(count_pixels(logits > 0, truth), first, last)


def _valid(query: Mask, protocol: Protocol) -> Tensor | None:
    """Query pixels for H, KL and π. ``official`` leaves out what the ground truth calls void, as the authors do."""
    if protocol == "official":
        return query.full != IGNORE
    return query.where.valid() if protocol == "clean" else None
