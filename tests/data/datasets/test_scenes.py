"""Generated scenes."""

import numpy as np
import torch

from repri.data.datasets.open import open_dataset, splits_of
from repri.data.datasets.scenes import CLASSES, make_dataset, make_task


def test_the_same_seed_draws_the_same_task():
    first, again, other = make_task(3, shots=2, size=48), make_task(3, shots=2, size=48), make_task(4, size=48)
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not torch.equal(first.query, other.query)
    assert first.support.shape == (2, 3, 48, 48)
    assert set(first.query_mask.unique().tolist()) == {0, 1}


def test_a_data_set_that_is_opened_like_any_other(tmp_path):
    make_dataset(tmp_path / "scenes", train=9, val=2, size=64)
    path = tmp_path / "scenes" / "data.yaml"
    assert splits_of(path) == ("train", "val")
    train = open_dataset(path, split="train")
    assert len(train) == 9
    assert tuple(train.classes.values()) == CLASSES
    assert train.folds == ((1, 5), (2, 6), (3, 7), (4, 8))
    for n, sample in enumerate(train.samples):
        assert n % len(CLASSES) + 1 in np.unique(train.pair(sample.id)[1])  # every class in turn, on top
