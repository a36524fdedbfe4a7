"""mIoU on tasks of base classes."""

import numpy as np
import torch

from repri.methods import LearnedMethod, Prediction
from repri.runtime.distributed import World
from repri.training.episodic.validate import predicted, validate_tasks


def test_everything_foreground_is_scored_as_loops_score_it(learned, monkeypatch):
    part = learned.validation
    monkeypatch.setattr(LearnedMethod, "predict", lambda self, e: Prediction(torch.ones(e.query.shape[-2:])))
    counts = {}
    for place in range(len(part)):
        episode = part.load(place)
        for value in episode.query.mask.flatten().tolist():
            hit, union = counts.get(episode.task.class_id, (0, 0))
            counts[episode.task.class_id] = (hit + (value == 1), union + (value != 255))
    expected = 100 * np.mean([hit / union for hit, union in counts.values()])
    assert abs(validate_tasks(learned.method, part, World()) - expected) < 1e-3


def test_nothing_foreground_is_zero(learned, monkeypatch):
    monkeypatch.setattr(LearnedMethod, "predict", lambda self, e: Prediction(-torch.ones(e.query.shape[-2:])))
    assert validate_tasks(learned.method, learned.validation, World()) == 0


def test_a_prediction_has_the_size_of_the_input(learned):
    episode = learned.validation.load(0)
    mask = predicted(learned.method, episode, learned.extractor.widths)
    assert mask.shape == episode.query.mask.shape
    assert mask.dtype == torch.bool
