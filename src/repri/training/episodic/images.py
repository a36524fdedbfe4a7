"""Which images episodes are drawn from, and what is done to pixels of classes that are not trained on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

import numpy as np

from repri.data.datasets.dataset import Dataset, Source
from repri.data.datasets.index import ClassIndex, class_index
from repri.data.io.masks import IGNORE, mask_type
from repri.runtime.errors import RepriError
from repri.training.split import choose_images, evenly

__all__ = ["Images", "base_images", "hide_others"]

Novel = Literal["ignore", "background", "drop"]
"""What is done to pixels of classes that are not trained on (``episodes.novel``)."""


class Images(NamedTuple):
    """The images from which episodes are drawn."""

    dataset: Dataset
    """These images only; their masks show base classes, background and 255."""
    index: ClassIndex
    """Pixels of each class in each of them."""


def base_images(
    dataset: Dataset,
    base: Sequence[int],
    min_pixels: int,
    novel: Novel,
    most: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Images:
    """Choose the images with enough pixels of a base class, and hide the other classes in their masks.

    Args:
        dataset: The data set.
        base: Ids of the base classes.
        min_pixels: Pixels of a base class that an image needs.
        novel: What is done to pixels of other classes; with ``drop``, images that have any are left out.
        most: Largest number of images, taken evenly from the list; None: all.
        progress: Called with how many masks were counted, and of how many.

    Returns:
        The images.
    """
    index = class_index(dataset, min_pixels, progress=progress)
    ids = choose_images(dataset, base, min_pixels, None)
    if novel == "drop":
        columns = [place for place, id in enumerate(index.classes) if id not in base]
        spoilt = index.counts[:, columns].sum(1) > 0
        ids = [id for id in ids if not spoilt[dataset.position[id]]]
        if not ids:
            raise RepriError(
                f"{dataset.name} {dataset.split}: every image with a base class also shows another class, so "
                "episodes.novel: drop leaves none: set ignore."
            )
    chosen = evenly(ids, most)
    rows = [dataset.position[id] for id in chosen]
    fewer = replace(hide_others(dataset, base, novel), samples=tuple(dataset.samples[row] for row in rows))
    return Images(fewer, index._replace(counts=index.counts[rows]))


def hide_others(dataset: Dataset, base: Sequence[int], novel: Novel) -> Dataset:
    """The data set with masks that do not show other classes than the base ones.

    Args:
        dataset: The data set.
        base: Ids of the base classes.
        novel: ``background`` turns the others into background; otherwise they are 255, which no loss and no prototype
            looks at.

    Returns:
        The data set, whose masks are drawn from those of the given one.
    """
    largest = max(IGNORE, *dataset.classes)
    table = np.arange(largest + 1, dtype=mask_type(largest))
    table[[id for id in dataset.classes if id not in base]] = 0 if novel == "background" else IGNORE
    return replace(dataset, source=Source(lambda id: table[dataset.annotation(id)], f"{novel} {sorted(base)}"))
