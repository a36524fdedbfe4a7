"""Folds by the names of the classes."""

import pytest

from repri.data.datasets.folds import COCO_FOLDS, PASCAL_FOLDS, coco_to_pascal_novel
from repri.data.io.classes import PASCAL
from repri.runtime.errors import RepriError


def names(ids):
    return {PASCAL[id - 1] for id in ids}


def test_folds_cover_every_class_once():
    assert sorted(id for fold in PASCAL_FOLDS for id in fold) == list(range(1, 21))
    assert sorted(id for fold in COCO_FOLDS for id in fold) == list(range(1, 81))
    assert PASCAL_FOLDS[1] == (6, 7, 8, 9, 10)
    assert COCO_FOLDS[2] == tuple(range(3, 80, 4))


def test_coco_to_pascal_by_name():
    """The lists of the paper's appendix; the authors' code tests car and cat in each other's place."""
    wanted = {
        0: "aeroplane boat chair diningtable dog person",
        1: "horse sofa bicycle bus",
        2: "bird car pottedplant sheep train tvmonitor",
        3: "bottle cat cow motorbike",
    }
    for fold, text in wanted.items():
        assert names(coco_to_pascal_novel(fold)) == set(text.split())
        swapped = {{"car": "cat", "cat": "car"}.get(name, name) for name in text.split()}
        assert names(coco_to_pascal_novel(fold, swapped=True)) == swapped
    with pytest.raises(RepriError, match="there is no fold 4: folds are 0, 1, 2 and 3"):
        coco_to_pascal_novel(4)
