"""IoU of settings on held-out pixels, against a slow version."""

import numpy as np
import pytest
import torch

from repri.segmenter.experts.compare import Sight
from repri.segmenter.experts.scores import Pixels, Setting, best_of, offsets_for, score

OWN, LARGER, LOGISTIC = Sight(417), Sight(592), Sight(592, True)


def made(seed, classes=2, count=200):
    g = torch.Generator().manual_seed(seed)
    objects, textures = (torch.randn(classes + 1, count, generator=g).log_softmax(0) for _ in range(2))
    truth = torch.randint(0, classes + 1, (count,), generator=g)
    return Pixels({OWN: objects}, textures, truth, torch.ones(classes, dtype=torch.bool), (1.0,))


def slow(parts, weight, offsets):
    ious = []
    for n in (1, 2):
        hit = union = 0
        for part in parts:
            logs = (1 - weight) * part.objects[OWN] + weight * part.textures + torch.tensor([0.0, *offsets])[:, None]
            mask = np.array([int(np.argmax(column)) for column in logs.T.numpy()])
            truth = part.truth.numpy()
            hit, union = hit + ((mask == n) & (truth == n)).sum(), union + ((mask == n) | (truth == n)).sum()
        ious.append(hit / union)
    return float(np.mean(ious))


@pytest.mark.parametrize("weight", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("offsets", [(0.0, 0.0), (-1.0, 0.5)])
def test_the_score_is_the_mean_iou(weight, offsets):
    parts = [made(0), made(1)]
    assert score(parts, Setting(weight, OWN), offsets) == pytest.approx(slow(parts, weight, offsets), abs=1e-6)


def test_classes_that_were_not_known_do_not_count():
    part = made(0)
    part.objects[OWN][2], part.textures[2] = -torch.inf, -torch.inf
    part = part._replace(compared=torch.tensor([True, False]), truth=part.truth.clamp_max(1))
    only = score([part], Setting(0.5, OWN))
    logs = 0.5 * part.objects[OWN] + 0.5 * part.textures
    mask = logs[1] > logs[0]
    expected = (mask & (part.truth == 1)).sum() / (mask | (part.truth == 1)).sum()
    assert only == pytest.approx(float(expected), abs=1e-6)


def test_offsets_mend_a_class_that_claims_too_much():
    part = made(0, classes=1, count=500)
    truth = (part.textures[1] > part.textures[0]).long()
    greedy = part.textures + torch.tensor([[0.0], [1.5]])
    part = part._replace(textures=greedy, truth=truth)
    (offset,) = offsets_for([part], Setting(1.0, OWN))
    assert offset == -1.5
    assert score([part], Setting(1.0, OWN), (offset,)) == 1
    assert offsets_for([part._replace(textures=greedy - torch.tensor([[0.0], [1.5]]))], Setting(1.0, OWN)) == ()


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ({(0.0, OWN): 0.5, (0.7, OWN): 0.5}, (0.0, OWN)),
        ({(0.0, OWN): 0.5, (0.7, OWN): 0.59}, (0.0, OWN)),
        ({(0.0, OWN): 0.5, (0.7, OWN): 0.62}, (0.7, OWN)),
        ({(0.0, OWN): 0.5, (0.0, LARGER): 0.59}, (0.0, OWN)),
        ({(0.0, OWN): 0.5, (0.0, LARGER): 0.65}, (0.0, LARGER)),
        ({(0.0, OWN): 0.5, (0.7, OWN): 0.8, (0.7, LARGER): 0.84}, (0.7, OWN)),
        ({(0.0, OWN): 0.5, (0.7, OWN): 0.8, (0.7, LARGER): 0.86}, (0.7, LARGER)),
        ({(0.0, OWN): 0.5, (0.5, OWN): 0.701, (0.7, OWN): 0.7}, (0.7, OWN)),
        ({(0.0, OWN): 0.5, (0.0, LOGISTIC): 0.51}, (0.0, OWN)),
        ({(0.0, OWN): 0.5, (0.0, LOGISTIC): 0.53}, (0.0, LOGISTIC)),
        ({(0.0, OWN): 0.5, (0.7, OWN): 0.7, (0.7, LOGISTIC): 0.73}, (0.7, LOGISTIC)),
        ({}, (0.0, OWN)),
    ],
)
def test_ties_go_to_the_default(scores, expected):
    made = {Setting(*setting): value for setting, value in scores.items()}
    assert best_of(made, Setting(0.0, OWN)) == expected


@pytest.mark.parametrize(("textures", "larger", "expected"), [(0.91, 0.99, 0.7), (0.88, 0.99, 0.0), (0.88, 1.0, 0.0)])
def test_textures_may_be_worse_where_held_out_parts_say_little(textures, larger, expected):
    scores = {Setting(0.0, OWN): 0.99, Setting(0.0, LARGER): larger, Setting(0.7, OWN): textures}
    assert best_of(scores, Setting(0.0, OWN), far=-0.1) == Setting(expected, OWN)
