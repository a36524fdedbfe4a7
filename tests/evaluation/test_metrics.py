"""The metric against a slow version written from the definition."""

from collections import defaultdict

import numpy as np
import pytest
import torch

from repri.evaluation.metrics import Counts, bootstrap, count_pixels, paired_interval, running_miou, scores
from repri.runtime.errors import RepriError


def slow_miou(tasks, runs):
    """tasks: (run, class, prediction [H][W], mask [H][W])."""
    values = []
    for run in range(runs):
        inter, union = defaultdict(int), defaultdict(int)
        for r, c, prediction, mask in tasks:
            if r != run:
                continue
            for p_row, m_row in zip(prediction, mask, strict=True):
                for p, m in zip(p_row, m_row, strict=True):
                    if m == 255:
                        continue
                    inter[c] += bool(p and m == 1)
                    union[c] += bool(p or m == 1)
        values.append(sum(inter[c] / union[c] for c in union) / len(union))
    return 100 * sum(values) / runs


def random_tasks(runs=3, per_run=12):
    g = torch.Generator().manual_seed(0)
    tasks = []
    for run in range(runs):
        for i in range(per_run):
            prediction = torch.rand(9, 7, generator=g) < 0.4
            mask = torch.tensor([0, 1, 255])[torch.randint(3, (9, 7), generator=g)]
            tasks.append((run, 5 + i % 4, prediction, mask))
    return tasks


def counted(tasks):
    return Counts(
        np.array([t[0] for t in tasks]),
        np.array([t[1] for t in tasks]),
        np.array([count_pixels(t[2], t[3]) for t in tasks]),
    )


def test_miou_is_the_definition():
    tasks = random_tasks()
    plain = [(r, c, p.tolist(), m.tolist()) for r, c, p, m in tasks]
    found = scores(counted(tasks), samples=50)
    assert found.miou == pytest.approx(slow_miou(plain, 3), abs=1e-10)
    assert found.per_run == pytest.approx(
        [slow_miou([(0, *t[1:]) for t in plain if t[0] == run], 1) for run in range(3)]
    )
    assert np.mean(list(found.per_class.values())) == pytest.approx(found.miou)
    assert found.interval[0] < found.miou < found.interval[1]


def test_pixels_of_a_known_case():
    prediction = torch.tensor([[1, 1, 0, 0, 1]], dtype=torch.bool)
    mask = torch.tensor([[1, 0, 1, 0, 255]])
    assert count_pixels(prediction, mask) == (1, 3, 1, 3)
    perfect = Counts(np.zeros(1), np.ones(1), np.array([count_pixels(mask == 1, mask)]))
    assert scores(perfect, 10).miou == scores(perfect, 10).fb_iou == 100


def test_fb_iou_pools_the_classes():
    counts = Counts(np.zeros(2), np.array([1, 2]), np.array([[10, 20, 60, 80], [0, 20, 60, 80]]))
    assert scores(counts, 10).fb_iou == pytest.approx(100 * (10 / 40 + 120 / 160) / 2)
    assert scores(counts, 10).miou == pytest.approx(25)


def test_a_run_without_some_class():
    counts = Counts(np.array([0, 0, 1]), np.array([1, 2, 1]), np.array([[1, 2, 1, 1], [1, 1, 1, 1], [1, 4, 1, 1]]))
    found = scores(counts, 20)
    assert found.per_run == pytest.approx([75, 25])


def test_pairing_removes_what_is_common():
    """Two methods that differ by a constant on tasks of very different difficulty."""
    rng = np.random.default_rng(0)
    union = np.full(200, 1000)
    first = rng.integers(0, 900, 200)
    run, classes = np.zeros(200, int), np.arange(200) % 5
    a, b = (Counts(run, classes, np.stack([hit, union, union, union], 1)) for hit in (first, first + 20))
    centre, low, high = paired_interval(a, b)
    assert centre == pytest.approx(2)
    assert high - low < 0.1 < np.ptp(np.percentile(bootstrap(a), [2.5, 97.5]))
    with pytest.raises(RepriError, match="The two results are not of the same tasks"):
        paired_interval(a, b._replace(class_id=classes[::-1]))


def test_the_running_miou_pools_the_runs():
    counts = Counts(np.array([0, 1, 0]), np.array([1, 1, 2]), np.array([[1, 2, 0, 0], [2, 2, 0, 0], [1, 4, 0, 0]]))
    assert running_miou(counts) == pytest.approx(100 * (3 / 4 + 1 / 4) / 2)
