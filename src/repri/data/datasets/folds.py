"""Classes by name, and which of them each fold keeps for testing.

PASCAL-5i: fold i tests classes 5i+1 … 5i+5 of VOC's 20. COCO-20i: fold i tests every fourth of COCO's
80, from the (i+1)-th on. COCO→PASCAL: a model of COCO's fold i is tested on the VOC classes whose COCO
twin it was not trained on.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Literal

__all__ = [
    "COCO",
    "PASCAL",
    "TWINS",
    "Protocol",
    "among",
    "coco_novel",
    "coco_to_pascal_novel",
    "contiguous_folds",
    "interleaved_folds",
    "numbered",
    "pascal_novel",
]

Protocol = Literal["official", "paper", "clean"]

_PASCAL = (
    "aeroplane bicycle bird boat bottle bus car cat chair cow "
    "diningtable dog horse motorbike person pottedplant sheep sofa train tvmonitor"
)
_COCO = (
    "person,bicycle,car,motorcycle,airplane,bus,train,truck,boat,traffic light,"
    "fire hydrant,stop sign,parking meter,bench,bird,cat,dog,horse,sheep,cow,"
    "elephant,bear,zebra,giraffe,backpack,umbrella,handbag,tie,suitcase,frisbee,"
    "skis,snowboard,sports ball,kite,baseball bat,baseball glove,skateboard,surfboard,tennis racket,bottle,"
    "wine glass,cup,fork,knife,spoon,bowl,banana,apple,sandwich,orange,"
    "broccoli,carrot,hot dog,pizza,donut,cake,chair,couch,potted plant,bed,"
    "dining table,toilet,tv,laptop,mouse,remote,keyboard,cell phone,microwave,oven,"
    "toaster,sink,refrigerator,book,clock,vase,scissors,teddy bear,hair drier,toothbrush"
)
PASCAL = tuple(_PASCAL.split())
COCO = tuple(_COCO.split(","))
TWINS = {
    "aeroplane": "airplane",
    "motorbike": "motorcycle",
    "sofa": "couch",
    "pottedplant": "potted plant",
    "diningtable": "dining table",
    "tvmonitor": "tv",
}
"""VOC name → COCO name, where they differ."""


def among(names: Iterable[str], others: Iterable[str]) -> list[str]:
    """Those of the names that are among the others, whatever data set either is named after.

    >>> among(["sofa", "cat"], ["couch", "dog"])
    ['sofa']
    """
    known = {TWINS.get(name, name) for name in others}
    return [name for name in names if TWINS.get(name, name) in known]


def numbered(names: list[str] | tuple[str, ...]) -> dict[int, str]:
    """id → name, from 1 on; 255 is never a class, so from there on ids are one higher."""
    return {number if number < 255 else number + 1: name for number, name in enumerate(names, 1)}


def contiguous_folds(ids: list[int], folds: int) -> tuple[tuple[int, ...], ...]:
    """Classes in blocks, as PASCAL-5i has them: fold 0 tests the first block."""
    bounds = [len(ids) * i // folds for i in range(folds + 1)]
    return tuple(tuple(ids[low:high]) for low, high in pairwise(bounds))


def interleaved_folds(ids: list[int], folds: int) -> tuple[tuple[int, ...], ...]:
    """Classes dealt out in turn, as COCO-20i has them."""
    return tuple(tuple(ids[i::folds]) for i in range(folds))


def pascal_novel(fold: int) -> tuple[int, ...]:
    """Ids of the VOC classes that a fold tests.

    >>> [PASCAL[id - 1] for id in pascal_novel(1)]
    ['bus', 'car', 'cat', 'chair', 'cow']
    """
    return contiguous_folds(list(numbered(PASCAL)), 4)[_checked(fold)]


def coco_novel(fold: int) -> tuple[int, ...]:
    """Ids of the COCO classes that a fold tests.

    >>> [COCO[id - 1] for id in coco_novel(0)][:4]
    ['person', 'airplane', 'boat', 'parking meter']
    """
    return interleaved_folds(list(numbered(COCO)), 4)[_checked(fold)]


def coco_to_pascal_novel(fold: int, protocol: Protocol = "clean") -> tuple[int, ...]:
    """Ids of the VOC classes on which a model of COCO's fold is tested.

    The authors' lists exchange the ids of cat and car; ``official`` does so too, and then tests two
    classes that the model has been trained on.

    >>> [PASCAL[id - 1] for id in coco_to_pascal_novel(3)]
    ['bottle', 'cat', 'cow', 'motorbike']
    >>> [PASCAL[id - 1] for id in coco_to_pascal_novel(3, "official")]
    ['bottle', 'car', 'cow', 'motorbike']
    """
    novel = {COCO[id - 1] for id in coco_novel(fold)}
    names = [name for name in PASCAL if TWINS.get(name, name) in novel]
    if protocol == "official":
        swap = {"cat": "car", "car": "cat"}
        names = [swap.get(name, name) for name in names]
    return tuple(sorted(PASCAL.index(name) + 1 for name in names))


def _checked(fold: int) -> int:
    if fold not in range(4):
        raise ValueError(f"there is no fold {fold}: folds are 0, 1, 2 and 3")
    return fold
