"""The classes that each fold keeps for testing.

PASCAL-5i: fold i tests the classes 5i + 1 … 5i + 5 of VOC's 20. COCO-20i: fold i tests every fourth of COCO's 80
classes, from the (i + 1)-th on. COCO→PASCAL: a model of COCO's fold i is tested on the VOC classes that have the
meaning of its novel COCO classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from repri.data.io.classes import COCO, PASCAL, among, number_classes
from repri.runtime.errors import RepriError

__all__ = [
    "COCO_FOLDS",
    "PASCAL_FOLDS",
    "coco_to_pascal_novel",
    "contiguous_folds",
    "interleaved_folds",
]


def contiguous_folds(ids: Sequence[int], folds: int) -> tuple[tuple[int, ...], ...]:
    """Divide classes into blocks, as PASCAL-5i does: fold 0 tests the first block.

    Args:
        ids: Ids of the classes.
        folds: Number of folds.

    Returns:
        The ids that each fold tests.

    Example:
        >>> contiguous_folds([1, 2, 3, 4, 5], 2)
        ((1, 2), (3, 4, 5))
    """
    bounds = [len(ids) * i // folds for i in range(folds + 1)]
    return tuple(tuple(ids[low:high]) for low, high in pairwise(bounds))


def interleaved_folds(ids: Sequence[int], folds: int) -> tuple[tuple[int, ...], ...]:
    """Deal classes out in turn, as COCO-20i does.

    Args:
        ids: Ids of the classes.
        folds: Number of folds.

    Returns:
        The ids that each fold tests.

    Example:
        >>> interleaved_folds([1, 2, 3, 4, 5], 2)
        ((1, 3, 5), (2, 4))
    """
    return tuple(tuple(ids[i::folds]) for i in range(folds))


PASCAL_FOLDS = contiguous_folds(list(number_classes(PASCAL)), 4)
"""PASCAL-5i: the ids of the VOC classes that each fold tests."""
COCO_FOLDS = interleaved_folds(list(number_classes(COCO)), 4)
"""COCO-20i: the ids of the COCO classes that each fold tests."""


def coco_to_pascal_novel(fold: int, swapped: bool = False) -> tuple[int, ...]:
    """Return the ids of the VOC classes on which a model of a COCO fold is tested.

    Args:
        fold: Fold of COCO-20i: 0, 1, 2 or 3.
        swapped: Exchange cat and car, as the lists of the paper's authors do; two of the tested classes are then ones
            that the model has been trained on.

    Returns:
        The ids, sorted.

    Example:
        >>> [PASCAL[id - 1] for id in coco_to_pascal_novel(3)]
        ['bottle', 'cat', 'cow', 'motorbike']
        >>> [PASCAL[id - 1] for id in coco_to_pascal_novel(3, swapped=True)]
        ['bottle', 'car', 'cow', 'motorbike']
    """
    if fold not in range(len(COCO_FOLDS)):
        raise RepriError(f"there is no fold {fold}: folds are 0, 1, 2 and 3")
    names = among(PASCAL, [COCO[id - 1] for id in COCO_FOLDS[fold]])
    if swapped:
        exchange = {"cat": "car", "car": "cat"}
        names = [exchange.get(name, name) for name in names]
    return tuple(sorted(PASCAL.index(name) + 1 for name in names))
