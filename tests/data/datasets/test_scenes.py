"""Generated scenes."""

import numpy as np
import torch
import torch.nn.functional as F

from repri.data.datasets.open import open_dataset, splits_of
from repri.data.datasets.scenes import CLASSES, make_dataset, make_task
from repri.inference import InferenceConfig, infer
from repri.models.extractors.filters import FilterBank


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


def test_the_texture_of_a_scene_is_segmented_and_the_fit_helps():
    """The scenes are hard enough that the classifier at its start is wrong, and easy enough that filters suffice."""
    extractor, config = FilterBank(), InferenceConfig.preset("clean")
    scores = []
    for task in map(make_task, range(8)):
        support, query = extractor.extract(task.support), extractor.extract(task.query[None])
        out = infer(support[None], task.support_masks[None], query, config)
        for probability in (out.initial_probability, out.probability):
            whole = F.interpolate(probability[None], task.query_mask.shape, mode="bilinear")[0, 0] > 0.5
            scores.append(float((whole & (task.query_mask == 1)).sum() / (whole | (task.query_mask == 1)).sum()))
    start, end = np.mean(scores[::2]), np.mean(scores[1::2])
    assert end > 0.5
    assert end > start
