"""Scores on validation images."""

import math

import torch

from repri.runtime.distributed import World
from repri.training.validate import mean_iou, validate


def test_the_mean_leaves_out_background_and_absent_classes():
    confusion = torch.tensor([[9, 1, 0, 0], [2, 6, 0, 0], [0, 0, 0, 0], [0, 1, 0, 3]])
    assert math.isclose(mean_iou(confusion), 100 * (6 / 10 + 3 / 4) / 2)
    assert math.isnan(mean_iou(torch.zeros(3, 3)))


def test_every_labelled_pixel_counts_once(trained):
    plan = trained.plan
    result = validate(plan.trainee, plan.validation, len(plan.classes) + 1, World())
    labelled = sum(int((plan.validation.example(i, 0).labels != 255).sum()) for i in range(len(plan.validation)))
    assert int(result.confusion.sum()) == labelled
    assert math.isclose(result.miou, trained.progress.rows[-1]["base_miou"])
    assert math.isnan(result.cosine)
