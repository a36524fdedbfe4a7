"""Few-shot tasks: drawn by a seed, the same on every machine, saved and shipped as JSON."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from repri.data.datasets.dataset import Dataset
from repri.data.datasets.index import MIN_PIXELS, ClassIndex, class_index, class_lists
from repri.runtime.files import atomic

__all__ = ["Sampling", "Task", "TaskList", "load_tasks", "sample_tasks", "save_tasks"]

Sampling = Literal["queries", "classes"]
"""``queries``: the list of images in order, wrapping round and carried on over the runs, one of the tested classes
in it drawn evenly, as the authors do. ``classes``: a class drawn evenly, then its query."""
FORMAT = "repri-tasks-1"


class Task(NamedTuple):
    class_id: int
    support: tuple[str, ...]
    query: str


@dataclass(frozen=True)
class TaskList:
    """The tasks of several runs, and where they come from."""

    dataset: str
    split: str
    classes: Mapping[int, str]
    """The tested classes, id → name."""
    shots: int
    seed: int
    sampling: Sampling
    runs: tuple[tuple[Task, ...], ...]

    @property
    def hash(self) -> str:
        """Equal for equal lists; every result carries it."""
        return hashlib.sha256(json.dumps(self._content(), sort_keys=True).encode()).hexdigest()[:16]

    def _content(self) -> dict[str, Any]:
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


def sample_tasks(
    dataset: Dataset,
    classes: Sequence[int],
    shots: int,
    tasks: int = 1000,
    runs: int = 5,
    seed: int = 0,
    sampling: Sampling = "queries",
    min_pixels: int = MIN_PIXELS,
    index: ClassIndex | None = None,
) -> TaskList:
    """Draw ``runs`` × ``tasks`` tasks over the given classes.

    A support image and the query hold enough pixels of the class (the query, with ``queries``, of one of the
    classes); support images are distinct and none is the query. Each task has a random stream of its own: the
    list depends on the arguments alone. With the same seed, fewer shots are the first ones of more.
    """
    if shots < 1 or tasks < 1 or runs < 1:
        raise ValueError(f"shots, tasks and runs must be at least 1, got {shots}, {tasks} and {runs}")
    index = class_index(dataset) if index is None else index
    lists = class_lists(dataset, index, min_pixels)
    if not classes:
        raise ValueError(f"{dataset.name}: there is no class to draw tasks of")
    for id in classes:
        _check_class(dataset, id, len(lists.get(id, ())), shots, min_pixels)
    chosen, streams = tuple(classes), [random.Random(f"{seed}/{i}") for i in range(tasks * runs)]
    if sampling == "queries":
        flat = _by_query(dataset, index, lists, chosen, streams)
    elif sampling == "classes":
        flat = _by_class(lists, chosen, streams)
    else:
        raise ValueError(f"no sampling named {sampling!r}; known: queries, classes")
    drawn = [_with_support(class_id, query, lists[class_id], shots, stream) for class_id, query, stream in flat]
    split_runs = tuple(tuple(drawn[run * tasks : (run + 1) * tasks]) for run in range(runs))
    names = {id: dataset.classes[id] for id in chosen}
    return TaskList(dataset.name, dataset.split, names, shots, seed, sampling, split_runs)


def _check_class(dataset: Dataset, id: int, images: int, shots: int, min_pixels: int) -> None:
    if id not in dataset.classes:
        raise ValueError(f"{dataset.name} has no class with the id {id}; known: {min(dataset.classes)} …")
    if images < shots + 1:
        what = "no image" if images == 0 else f"only {images} image{'s' if images > 1 else ''}"
        raise ValueError(
            f"{dataset.name} {dataset.split} has {what} with at least {min_pixels} pixels of {dataset.classes[id]!r}, "
            f"and {shots} shots need {shots + 1}: use fewer shots, another split, or leave the class out"
        )


Lists = Mapping[int, tuple[str, ...]]
Drawn = tuple[int, str, random.Random]
"""Class, query, and the stream that goes on to draw the support."""


def _by_query(
    dataset: Dataset, index: ClassIndex, lists: Lists, classes: tuple[int, ...], streams: list[random.Random]
) -> list[Drawn]:
    members = {c: set(lists[c]) for c in classes}
    queries = [sample.id for sample in dataset.samples if any(sample.id in members[c] for c in classes)]
    drawn = []
    for i, stream in enumerate(streams):
        query = queries[i % len(queries)]
        # The filter gates the list of queries, not which class of a query is drawn.
        present = [c for c in classes if index.of(c)[dataset.position[query]] > 0]
        present = present or [c for c in classes if query in members[c]]  # a reduced mask may have lost it
        drawn.append((present[_below(stream, len(present))], query, stream))
    return drawn


def _by_class(lists: Lists, classes: tuple[int, ...], streams: list[random.Random]) -> list[Drawn]:
    drawn = []
    for stream in streams:
        chosen = classes[_below(stream, len(classes))]
        drawn.append((chosen, lists[chosen][_below(stream, len(lists[chosen]))], stream))
    return drawn


def _with_support(class_id: int, query: str, pool: Sequence[str], shots: int, stream: random.Random) -> Task:
    """The first ``shots`` of a shuffle of the pool without the query."""
    rest = [id for id in pool if id != query]
    for i in range(shots):
        j = i + _below(stream, len(rest) - i)
        rest[i], rest[j] = rest[j], rest[i]
    return Task(class_id, tuple(rest[:shots]), query)


def _below(stream: random.Random, n: int) -> int:
    """A whole number in [0, n), from random() alone: the one method whose stream Python promises to keep."""
    return int(stream.random() * n)


def save_tasks(tasks: TaskList, path: Path) -> None:
    """Write a task list as JSON."""
    with atomic(path) as temporary:
        temporary.write_text(json.dumps(tasks._content() | {"hash": tasks.hash}))


def load_tasks(path: Path, dataset: Dataset | None = None) -> TaskList:
    """Read a task list; with a data set, check that it holds every image and class."""
    try:
        content = json.loads(path.read_text())
        if content.get("format") != FORMAT:
            raise ValueError(f"its format is {content.get('format')!r}")
        runs = tuple(tuple(Task(t["class"], tuple(t["support"]), t["query"]) for t in run) for run in content["runs"])
        classes = {int(id): name for id, name in content["classes"].items()}
        fields = (content[key] for key in ("shots", "seed", "sampling"))
        tasks = TaskList(content["dataset"], content["split"], classes, *fields, runs)
    except OSError as error:
        raise ValueError(f"cannot read the task list {path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} is not a task list written by repri ({error})") from None
    if content.get("hash") not in (None, tasks.hash):
        raise ValueError(f"{path} was changed after it was written (its hash is {tasks.hash}, not {content['hash']})")
    every = [task for run in runs for task in run]
    if not every or any(len(task.support) != tasks.shots or task.query in task.support for task in every):
        raise ValueError(f"{path} must hold tasks of {tasks.shots} support images each, none of them the query")
    if dataset is not None:
        _check_fits(tasks, dataset, path)
    return tasks


def _check_fits(tasks: TaskList, dataset: Dataset, path: Path) -> None:
    for id, name in tasks.classes.items():
        if dataset.classes.get(id) != name:
            raise ValueError(f"{path} has the class {id} {name!r}, {dataset.name} has {dataset.classes.get(id)!r}")
    for task in (task for run in tasks.runs for task in run):
        for image in (task.query, *task.support):
            if image not in dataset.position:
                raise ValueError(
                    f"{path} wants the image {image!r}, which {dataset.name} {dataset.split} does not have"
                )
