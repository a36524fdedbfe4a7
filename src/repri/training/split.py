"""Which classes a run is trained on, and on which images."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from repri.data.datasets.dataset import Dataset
from repri.data.datasets.index import class_index, class_lists
from repri.data.datasets.open import open_dataset, splits_of
from repri.data.io.masks import IGNORE
from repri.runtime.errors import RepriError
from repri.runtime.parallel import parallel
from repri.runtime.settings import nearest

from .settings import DataSettings, TrainSettings

__all__ = [
    "base_classes",
    "base_labels",
    "check_readable",
    "choose_images",
    "evenly",
    "open_splits",
    "readable",
    "unreadable",
]


def open_splits(settings: TrainSettings) -> tuple[Dataset, Dataset]:
    """The data for training and for validation, which are the same if there is no split ``val``."""
    name, root = settings.data.name, settings.data.root
    protocol: Any = settings.protocol
    held_out = "val" if "val" in splits_of(name) else "train"
    train, validation = (open_dataset(name, root, split, protocol) for split in ("train", held_out))
    return train, validation


def base_classes(data: DataSettings, dataset: Dataset) -> tuple[int, ...]:
    """Ids of the classes to train on: those that are named, or all that the fold does not test.

    Args:
        data: Which fold and classes.
        dataset: The data set.

    Returns:
        Class ids in the data set's order.
    """
    held_out = () if data.fold is None else dataset.novel(data.fold)
    if data.classes is None:
        return tuple(id for id in dataset.classes if id not in held_out)
    novel = {dataset.classes[id] for id in held_out}
    for name in data.classes:
        if name not in dataset.classes.values():
            raise RepriError(f"{dataset.name} has no class {name!r}{nearest(name, list(dataset.classes.values()))}")
        if name in novel:
            raise RepriError(f"data.classes: {name!r} is tested by fold {data.fold}, so it cannot be trained on.")
    return tuple(id for id, name in dataset.classes.items() if name in data.classes)


def base_labels(dataset: Dataset, base: Sequence[int], void_is_background: bool) -> np.ndarray:
    """Table from class ids to the labels of base training.

    Args:
        dataset: The data set, which tells the largest class id.
        base: Ids of the base classes.
        void_is_background: Whether void pixels are labelled as background instead of being ignored.

    Returns:
        [ids] uint8: 0 for background, 1 … for base classes, 255 for all others.
    """
    table = np.full(max(256, max(dataset.classes) + 1), IGNORE, np.uint8)
    table[0] = 0
    table[list(base)] = np.arange(1, len(base) + 1)
    if void_is_background:
        table[IGNORE] = 0
    return table


def unreadable(dataset: Dataset, id: str, labelled: bool) -> Exception | None:
    """The error that reading an image and its mask raises, if one does."""
    try:
        dataset.pair(id) if labelled else dataset.image(id)
    except (ValueError, OSError) as error:
        return error
    return None


def readable(dataset: Dataset, labelled: bool) -> tuple[Dataset, list[str]]:
    """The data set without the images that cannot be read, and their names."""
    checked = parallel(lambda sample: (sample, unreadable(dataset, sample.id, labelled)), dataset.samples)
    kept, skipped = [], []
    for sample, problem in checked:
        (skipped if problem else kept).append(sample)
    return replace(dataset, samples=tuple(kept)), [sample.id for sample in skipped]


def check_readable(
    parts: Sequence[tuple[Dataset, Sequence[str]]],
    labelled: bool,
    progress: Callable[[int, int], None] | None = None,
) -> None:
    """Read images and masks, and raise the error of the first one that cannot be read.

    Args:
        parts: Data sets, and the names of their images.
        labelled: Whether masks are read too.
        progress: Called with how many were read, and of how many.
    """
    done, total = 0, sum(len(ids) for _, ids in parts)
    for dataset, ids in parts:
        for problem in parallel(lambda id, dataset=dataset: unreadable(dataset, id, labelled), ids):
            if problem is not None:
                raise problem
            done += 1
            if progress:
                progress(done, total)


def choose_images(
    dataset: Dataset,
    base: Sequence[int] | None,
    min_pixels: int,
    most: int | None,
    progress: Callable[[int, int], None] | None = None,
) -> list[str]:
    """Names of the images that take part.

    Args:
        dataset: The data set.
        base: Classes of which an image needs ``min_pixels`` pixels; None: masks are not read, and all images take part.
        min_pixels: Smallest number of pixels.
        most: Largest number of images; None: all.
        progress: Called with how many masks were counted, and of how many.

    Returns:
        The names in the data set's order.
    """
    ids = [sample.id for sample in dataset.samples]
    if base is not None and ids:
        lists = class_lists(dataset, class_index(dataset, min_pixels, progress=progress))
        wanted = {id for c in base for id in lists[c]}
        ids = [id for id in ids if id in wanted]
    if not ids:
        raise RepriError(
            f"{dataset.name} {dataset.split} has no image with {min_pixels} pixels of a base class: "
            "set a smaller data.min_pixels."
        )
    return evenly(ids, most)


def evenly(ids: Sequence[str], most: int | None) -> list[str]:
    """At most so many items of a list, at even distances.

    Example:
        >>> evenly(["a", "b", "c", "d"], 2)
        ['a', 'c']
    """
    if most is None or most >= len(ids):
        return list(ids)
    return [ids[i * len(ids) // most] for i in range(most)]
