"""Few-shot tasks: drawn by a seed, the same on every machine, and saved as JSON."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from typing_extensions import NotRequired, TypedDict

from repri.data.datasets.dataset import Dataset
from repri.data.datasets.index import ClassIndex, class_index, class_lists
from repri.runtime.errors import RepriError
from repri.runtime.files import atomic
from repri.runtime.reading import read_json, short, validated

__all__ = ["Sampling", "Task", "TaskList", "images_of", "load_tasks", "sample_tasks", "save_tasks"]

Sampling = Literal["queries", "classes"]
"""How a task is drawn.

``queries``, as the authors do: the query images come in the order of the list, again and again over all runs, and one
of the tested classes in each is drawn evenly. ``classes``: a class is drawn evenly, and then a query that shows it.
"""
FORMAT = "repri-tasks-1"
MOST_TASKS = 5_000_000
"""Tasks of a list, which is held in memory."""
StoredTask = TypedDict("StoredTask", {"class": int, "query": str, "support": list[str]})
"""A task in a file."""


class StoredList(TypedDict):
    """A task list in a file."""

    dataset: str
    split: str
    classes: dict[int, str]
    shots: int
    seed: int
    sampling: Sampling
    runs: list[list[StoredTask]]
    hash: NotRequired[str | None]


class Task(NamedTuple):
    """One class, the images that show it, and the image in which it is to be segmented."""

    class_id: int
    support: tuple[str, ...]
    """Ids of the K support images."""
    query: str
    """Id of the query image."""


@dataclass(frozen=True)
class TaskList:
    """The tasks of several runs, and how they were drawn."""

    dataset: str
    split: str
    classes: Mapping[int, str]
    """The tested classes, id → name."""
    shots: int
    """Number of support images in each task."""
    seed: int
    sampling: Sampling
    runs: tuple[tuple[Task, ...], ...]
    """The tasks of each run."""

    @property
    def hash(self) -> str:
        """16 hexadecimal digits, equal for equal lists; every result carries them."""
        return hashlib.sha256(json.dumps(self._content(), sort_keys=True).encode()).hexdigest()[:16]

    def _content(self) -> dict[str, Any]:
        """The content of the file."""
        runs = [[{"class": t.class_id, "query": t.query, "support": list(t.support)} for t in run] for run in self.runs]
        return {
            "format": FORMAT,
            "dataset": self.dataset,
            "split": self.split,
            "classes": {str(id): name for id, name in sorted(self.classes.items())},
            "shots": self.shots,
            "seed": self.seed,
            "sampling": self.sampling,
            "runs": runs,
        }


def images_of(dataset: Dataset, tasks: TaskList) -> list[Path]:
    """Every image of a task list once, in the order of the data set."""
    wanted = {id for run in tasks.runs for task in run for id in (task.query, *task.support)}
    return [sample.image for sample in dataset.samples if sample.id in wanted]


def sample_tasks(
    dataset: Dataset,
    classes: Sequence[int],
    shots: int,
    tasks: int = 1000,
    runs: int = 5,
    seed: int = 0,
    sampling: Sampling = "queries",
    index: ClassIndex | None = None,
) -> TaskList:
    """Draw few-shot tasks over the given classes.

    The support images and the query hold enough pixels of the class (with ``queries``, the query holds enough of one of
    the classes). The support images are distinct, and none is the query. Each task has a random stream of its own, so
    that the list depends on the arguments alone. With the same seed, the support of fewer shots is the beginning of
    that of more.

    Args:
        dataset: The data set.
        classes: Ids of the tested classes.
        shots: Number of support images in each task.
        tasks: Number of tasks in each run.
        runs: Number of runs.
        seed: Seed of the draw.
        sampling: ``queries`` or ``classes``.
        index: Pixels of each class in each image, and how many of them count. None: they are counted, and
            :data:`~repri.data.datasets.index.MIN_PIXELS` count.

    Returns:
        The tasks.
    """
    if shots < 1 or tasks < 1 or runs < 1:
        raise RepriError(f"shots, tasks and runs must be at least 1, got {shots}, {tasks} and {runs}")
    if tasks * runs > MOST_TASKS:
        raise RepriError(f"{runs} runs of {tasks} tasks are more than {MOST_TASKS:,} tasks: draw fewer")
    index = class_index(dataset) if index is None else index
    lists = class_lists(dataset, index)
    if not classes:
        raise RepriError(f"{dataset.name}: give at least one class to draw tasks of")
    for id in classes:
        _check_class(dataset, id, len(lists.get(id, ())), shots, index.min_pixels)
    chosen, streams = tuple(classes), (random.Random(f"{seed}/{i}") for i in range(tasks * runs))
    if sampling == "queries":
        flat = _by_query(dataset, index, lists, chosen, streams)
    elif sampling == "classes":
        flat = _by_class(lists, chosen, streams)
    else:
        raise RepriError(f"no sampling named {sampling!r}; known: queries, classes")
    drawn = [_with_support(class_id, query, lists[class_id], shots, stream) for class_id, query, stream in flat]
    split_runs = tuple(tuple(drawn[run * tasks : (run + 1) * tasks]) for run in range(runs))
    names = {id: dataset.classes[id] for id in chosen}
    return TaskList(dataset.name, dataset.split, names, shots, seed, sampling, split_runs)


def _check_class(dataset: Dataset, id: int, images: int, shots: int, min_pixels: int) -> None:
    """Refuse a class that does not exist or has too few images."""
    if id not in dataset.classes:
        raise RepriError(f"{dataset.name} has no class with the id {id}; known: {min(dataset.classes)} …")
    if images < shots + 1:
        what = "no image" if images == 0 else f"only {images} image{'s' if images > 1 else ''}"
        raise RepriError(
            f"{dataset.name} {dataset.split} has {what} with at least {min_pixels} pixels of {dataset.classes[id]!r}, "
            f"and {shots} shots need {shots + 1}: use fewer shots, another split, or leave the class out"
        )


Lists = Mapping[int, tuple[str, ...]]
"""Class → ids of the images that count for it."""
Drawn = tuple[int, str, random.Random]
"""Class, query, and the random stream that then draws the support."""


def _by_query(
    dataset: Dataset, index: ClassIndex, lists: Lists, classes: tuple[int, ...], streams: Iterable[random.Random]
) -> Iterator[Drawn]:
    """Take the query images in their order, and draw one of the classes in each."""
    members = {c: set(lists[c]) for c in classes}
    queries = [sample.id for sample in dataset.samples if any(sample.id in members[c] for c in classes)]
    for i, stream in enumerate(streams):
        query = queries[i % len(queries)]
        # The number of pixels decides which images are queries, not which class of a query is drawn.
        present = [c for c in classes if index.of(c)[dataset.position[query]] > 0]
        present = present or [c for c in classes if query in members[c]]  # a reduced mask may have lost it
        yield present[_below(stream, len(present))], query, stream


def _by_class(lists: Lists, classes: tuple[int, ...], streams: Iterable[random.Random]) -> Iterator[Drawn]:
    """Draw a class, and then one of its images as the query."""
    for stream in streams:
        chosen = classes[_below(stream, len(classes))]
        yield chosen, lists[chosen][_below(stream, len(lists[chosen]))], stream


def _with_support(class_id: int, query: str, pool: Sequence[str], shots: int, stream: random.Random) -> Task:
    """Draw the support: the first ``shots`` images of a shuffle of the pool without the query."""
    rest = [id for id in pool if id != query]
    for i in range(shots):
        j = i + _below(stream, len(rest) - i)
        rest[i], rest[j] = rest[j], rest[i]
    return Task(class_id, tuple(rest[:shots]), query)


def _below(stream: random.Random, n: int) -> int:
    """Draw a whole number in [0, n) by random() alone, the one method whose stream Python promises to keep."""
    return int(stream.random() * n)


def save_tasks(tasks: TaskList, path: Path) -> None:
    """Write a task list as JSON.

    Args:
        tasks: The list.
        path: The file.
    """
    with atomic(path) as temporary:
        temporary.write_text(json.dumps(tasks._content() | {"hash": tasks.hash}))


def load_tasks(path: Path, dataset: Dataset | None = None) -> TaskList:
    """Read a task list that :func:`save_tasks` wrote.

    Args:
        path: The file.
        dataset: A data set that must have every image and class of the list. None: it is not checked.

    Returns:
        The list.
    """
    try:
        raw = read_json(path)
        if isinstance(raw, dict) and raw.get("format") != FORMAT:
            raise RepriError(f"its format is {short(raw.get('format'))}")
        content = validated(StoredList, raw, "it")
    except RepriError as error:
        raise RepriError(f"{path} is not a task list written by repri ({error})") from None
    runs = tuple(tuple(Task(t["class"], tuple(t["support"]), t["query"]) for t in run) for run in content["runs"])
    fields = (content[key] for key in ("shots", "seed", "sampling"))
    tasks = TaskList(content["dataset"], content["split"], content["classes"], *fields, runs)
    if content.get("hash") not in (None, tasks.hash):
        raise RepriError(f"{path} was changed after it was written (its hash is {tasks.hash}, not {content['hash']})")
    every = [task for run in runs for task in run]
    if (
        not every
        or not all(runs)
        or any(len(task.support) != tasks.shots or task.query in task.support for task in every)
    ):
        raise RepriError(f"{path} must hold tasks of {tasks.shots} support images each, none of them the query")
    if dataset is not None:
        _check_fits(tasks, dataset, path)
    return tasks


def _check_fits(tasks: TaskList, dataset: Dataset, path: Path) -> None:
    """Raise an error unless a data set has every class and image of a task list."""
    for id, name in tasks.classes.items():
        if dataset.classes.get(id) != name:
            raise RepriError(f"{path} has the class {id} {name!r}, {dataset.name} has {dataset.classes.get(id)!r}")
    for task in (task for run in tasks.runs for task in run):
        for image in (task.query, *task.support):
            if image not in dataset.position:
                raise RepriError(
                    f"{path} wants the image {image!r}, which {dataset.name} {dataset.split} does not have"
                )
