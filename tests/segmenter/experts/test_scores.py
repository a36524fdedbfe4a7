"""IoU of settings on held-out pixels, against a slow version."""

import numpy as np
import pytest
import torch

from repri.segmenter.experts.compare import Sight
from repri.segmenter.experts.scores import PIXELS, SHIFTS, Pixels, Setting, _drawn, _shifted, best_of, score

OWN, LARGER, LOGISTIC = Sight(417), Sight(592), Sight(592, True)


def made(seed, classes=2, count=200):
    g = torch.Generator().manual_seed(seed)
    objects, textures = (torch.randn(classes + 1, count, generator=g).log_softmax(0) for _ in range(2))
    truth = torch.randint(0, classes + 1, (count,), generator=g)
    counts = torch.randint(1, 4, (count,), generator=g).float()
    known = torch.ones(classes, dtype=torch.bool)
    return Pixels({OWN: objects}, textures, truth, torch.arange(count), counts, known, (1.0,))


def slow(parts, weight, shift):
    ious = []
    for n in (1, 2):
        hit = union = 0
        for part in parts:
            logs = (1 - weight) * part.objects[OWN] + weight * part.textures
            logs[1:] += shift
            mask = np.array([int(np.argmax(column)) for column in logs.T.numpy()])
            truth, counts = part.truth.numpy(), part.counts.numpy()
            hit += counts[(mask == n) & (truth == n)].sum()
            union += counts[(mask == n) | (truth == n)].sum()
        ious.append(hit / union)
    return float(np.mean(ious))


@pytest.mark.parametrize("weight", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("shift", [0.0, -1.0, 0.5])
def test_the_score_is_the_mean_iou(weight, shift):
    parts = [made(0), made(1)]
    assert _shifted(parts, Setting(weight, OWN), shift) == pytest.approx(slow(parts, weight, shift), abs=1e-6)


def test_textures_have_the_best_of_a_few_shifts():
    parts, setting = [made(0), made(1)], Setting(0.5, OWN)
    assert score(parts, setting) == _shifted(parts, setting, 0.0)
    assert score(parts, setting, free=True) == max(_shifted(parts, setting, shift) for shift in SHIFTS)
    assert score(parts, Setting(0.0, OWN), free=True) == score(parts, Setting(0.0, OWN))


def test_rare_objects_are_compared_to_the_pixel():
    """Every pixel of a small object counts as one, and so do pixels that an expert takes for it."""
    truth, logs = (
        torch.zeros(40 * PIXELS, dtype=torch.long),
        torch.tensor([[0.99], [0.01]]).log().repeat(1, 40 * PIXELS),
    )
    truth[1000:1050], truth[-500:] = 1, 255
    logs[:, 2000:2020] = torch.tensor([[0.4], [0.6]]).log()
    places, counts = _drawn(truth, [logs, logs])
    assert len(places) < 3 * PIXELS
    assert set(range(1000, 1050)) | set(range(2000, 2020)) == set(places[counts == 1].tolist())
    assert float(counts.sum()) == pytest.approx(40 * PIXELS - 500)
    assert int(places.max()) < 40 * PIXELS - 500


def test_classes_that_were_not_known_do_not_count():
    part = made(0)
    part.objects[OWN][2], part.textures[2] = -torch.inf, -torch.inf
    part = part._replace(compared=torch.tensor([True, False]), truth=part.truth.clamp_max(1))
    only = score([part], Setting(0.5, OWN))
    logs = 0.5 * part.objects[OWN] + 0.5 * part.textures
    mask = logs[1] > logs[0]
    expected = part.counts[mask & (part.truth == 1)].sum() / part.counts[mask | (part.truth == 1)].sum()
    assert only == pytest.approx(float(expected), abs=1e-6)


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
