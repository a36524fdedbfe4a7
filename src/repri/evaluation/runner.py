"""From task lists to counts: stored features, a method's logits, a mask at the size that the protocol scores."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from repri.data.datasets.dataset import Dataset
from repri.data.tasks.tasks import Task, TaskList, images_of
from repri.features.labels import proportion_of
from repri.features.store import FeatureStore
from repri.features.view import View
from repri.inference.labels import IGNORE, has_object
from repri.methods import Episode, Method, Prediction, Support
from repri.protocols import Protocol
from repri.refine import Refiner, Staged, get_refiner
from repri.runtime.distributed import World
from repri.runtime.errors import RepriError
from repri.runtime.parallel import parallel

from .borders import boundary_f, outlined
from .metrics import Counts, Scores, count_pixels, scores

__all__ = ["Outcome", "Runner", "TaskScore", "images_of", "run_tasks"]

MASKS_KEPT = 512
"""Number of masks that are kept in memory: the images of a fold come up again and again."""
EDGE = 1e-6
"""The true proportion is kept this far from 0 and 1."""


class TaskScore(NamedTuple):
    """The counts of one task."""

    pixels: tuple[int, int, int, int]
    """Foreground intersection and union, background intersection and union."""
    initial_error: float
    """π₁⁽⁰⁾ / π*₁ − 1; NaN if the method has no π."""
    final_error: float
    """π₁ / π*₁ − 1 after the last step, or of the regions where these decide the size."""
    border: float = float("nan")
    """F-measure of the border; NaN if it is not measured."""


class Outcome(NamedTuple):
    """The counts of all tasks of a list, in the list's order."""

    counts: Counts
    errors: np.ndarray
    """[N, 2] relative error of π at the start and at the end."""
    borders: np.ndarray | None = None
    """[N] F-measure of the border, if it was measured."""

    def scores(self) -> Scores:
        """mIoU and its companions."""
        return scores(self.counts)


@dataclass(frozen=True, eq=False)
class Truth:
    """One class in one image."""

    mask: np.ndarray
    """[H, W]: 0, 1 and 255, at the image's own size."""
    view: View
    """How the extractor sees the image."""
    protocol: Protocol

    @cached_property
    def labels(self) -> Tensor:
        """[h, w] labels of the cells, as the protocol makes them."""
        return self.view.labels(self.mask, self.protocol.cell_labels)

    @cached_property
    def area(self) -> Tensor:
        """[h, w] labels by area, which never lose the object."""
        return self.view.labels(self.mask, "area")

    @cached_property
    def proportion(self) -> float:
        """π*₁ at the cells (Eq. 4), strictly between 0 and 1."""
        labels = self.labels if has_object(self.labels[None]).any() else self.area
        return min(max(proportion_of(labels), EDGE), 1 - EDGE)

    @cached_property
    def scored(self) -> Tensor:
        """The mask at the size at which the protocol scores."""
        return torch.from_numpy(self.mask) if self.protocol.scored_at == "original" else self.full

    @cached_property
    def full(self) -> Tensor:
        """The mask at the size of the network's input."""
        return self.view.mask(self.mask)

    @cached_property
    def query_cells(self) -> Tensor | None:
        """bool [h, w]: cells that count in H, KL and π."""
        if self.protocol.query_cells == "all":
            return None
        if self.protocol.query_cells == "content":
            return self.view.valid()
        return self.view.labels(self.mask, "nearest") != IGNORE


class Loaded(NamedTuple):
    """A task, ready to be scored."""

    episode: Episode
    truth: Truth
    """The truth about the query."""
    image: np.ndarray | None
    """[H, W, 3] the query, where the refinement needs it."""


@dataclass(frozen=True, eq=False)
class Runner:
    """Scores one task: a method on stored features, under a protocol."""

    dataset: Dataset
    method: Method
    store: FeatureStore
    protocol: Protocol
    refine: str = "none"
    """Refinement of the probability maps, at the image's own size."""
    borders: bool = False
    """Whether the F-measure of the borders is measured too."""

    def __post_init__(self) -> None:
        _ = self.refiner  # a wrong name is an error now
        if self.refine != "none" and self.protocol.scored_at == "network":
            raise RepriError(
                f"The protocol {self.protocol.name} scores at the network's size, where there is nothing to refine: "
                "use refine: none, or the protocol clean."
            )

    @cached_property
    def refiner(self) -> Refiner:
        """The refinement; the images of a fold come up again and again, so what it computes about them is kept."""
        return get_refiner(self.refine, keep=True)

    @cached_property
    def truth(self) -> Callable[[str, int], Truth]:
        """The truth about a class in an image, kept in memory for the tasks that use it next."""
        return lru_cache(MASKS_KEPT)(self._truth)

    def _truth(self, id: str, class_id: int) -> Truth:
        ids = self.dataset.mask(id)
        binary = (ids == class_id).astype(np.uint8)
        binary[ids == IGNORE] = IGNORE
        return Truth(binary, self.store.view((ids.shape[0], ids.shape[1])), self.protocol)

    def load(self, task: Task) -> Loaded:
        """Read everything that a task needs."""
        truths = [self.truth(id, task.class_id) for id in task.support]
        query = self.truth(task.query, task.class_id)
        labels = [truth.labels for truth in truths]
        if not any(has_object(label[None]).any() for label in labels):  # nearest resizing lost it in every shot
            labels = [truth.area for truth in truths]
        features = [self.store.get(self.dataset[id].image) for id in (*task.support, task.query)]
        told = query.proportion if self.method.oracle else None
        masks = [truth.full for truth in truths] if self.method.needs_masks else None
        support = Support(features[:-1], labels, masks, [truth.view.grid for truth in truths])
        extractor = self.store.extractor
        episode = Episode(support, features[-1], query.query_cells, told, extractor.background, extractor.widths)
        image = None if self.refine == "none" else self.dataset.image(task.query)
        return Loaded(episode, query, image)

    def score(self, task: Loaded) -> TaskScore:
        """Segment the query of a task and count its pixels."""
        prediction, truth = self.method.predict(task.episode), task.truth
        mask = self.mask(prediction, truth.view, task.image)
        final = float(mask.float().mean()) if isinstance(self.refiner, Staged) else prediction.proportion
        first, last = (
            float("nan") if pi is None else pi / truth.proportion - 1 for pi in (prediction.initial_proportion, final)
        )
        border = boundary_f(mask, outlined(truth.scored)) if self.borders else float("nan")
        return TaskScore(count_pixels(mask, truth.scored), first, last, border)

    def mask(self, prediction: Prediction, view: View, image: np.ndarray | None) -> Tensor:
        """bool mask at the size at which the protocol scores."""
        if self.protocol.scored_at == "network":
            upsample = view.grid.stretch if self.protocol.upsampling == "corners" else view.grid.upsample
            return upsample(prediction.logits) > 0
        probability = view.restore(torch.sigmoid(prediction.logits)[None])
        if image is not None:
            probability = self.refiner(probability, image)
        return probability[0] > 0.5

    def scores(self, tasks: list[Task]) -> Iterator[TaskScore]:
        """One score for each task; the next ones are read ahead."""
        yield from map(self.score, parallel(self.load, tasks, workers=1))


def run_tasks(
    runner: Runner,
    tasks: TaskList,
    world: World | None = None,
    progress: Callable[[int, int, Counts], None] | None = None,
) -> Outcome:
    """Score every task of a list once.

    Args:
        runner: What scores a task.
        tasks: The task list.
        world: The processes that share the work; each scores a part and all get the whole outcome.
        progress: Called now and then with the number of scored tasks, their total, and the counts so far.

    Returns:
        The counts of all tasks.
    """
    world = world or World()
    flat = [(run, task) for run, members in enumerate(tasks.runs) for task in members]
    mine = world.share(list(range(len(flat))))
    done: list[TaskScore] = []
    for score in runner.scores([flat[i][1] for i in mine]):
        done.append(score)
        if progress and (len(done) % 50 == 0 or len(done) == len(mine)):
            progress(len(done), len(mine), _counts([flat[i] for i in mine[: len(done)]], done))
    every: list[TaskScore | None] = [None] * len(flat)
    for rank, part in enumerate(world.gather(done)):
        every[rank :: world.size] = part
    whole = [score for score in every if score is not None]
    errors = np.array([(score.initial_error, score.final_error) for score in whole])
    borders = np.array([score.border for score in whole]) if runner.borders else None
    return Outcome(_counts(flat, whole), errors, borders)


def _counts(flat: list[tuple[int, Task]], scores: list[TaskScore]) -> Counts:
    run, class_id = np.array([run for run, _ in flat]), np.array([task.class_id for _, task in flat])
    return Counts(run, class_id, np.array([score.pixels for score in scores], np.int64).reshape(-1, 4))
