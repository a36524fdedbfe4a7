"""The network that learns from labelled cells, against automatic differentiation."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from repri.segmenter.experts.learned import LearnSettings, _adam, _gradients, learn


def rings(count=2000, seed=0):
    """Rows of two features whose class is the distance from the origin, which no linear classifier tells."""
    rows = torch.randn(count, 2, generator=torch.Generator().manual_seed(seed))
    return rows, (rows.norm(dim=1) > 1.2).long()


def test_it_learns_what_a_linear_classifier_cannot():
    rows, labels = rings()
    learned, (others, truth) = learn(rows, labels, 1), rings(seed=1)
    assert (learned.logits(others.T).argmax(0) == truth).float().mean() > 0.95


def test_several_classes_and_fractions():
    rows = torch.rand(1500, 3, generator=torch.Generator().manual_seed(0))
    ids = rows.argmax(1)
    by_id = learn(rows, ids, 2)
    by_fraction = learn(rows, F.one_hot(ids, 3).float(), 2)
    assert torch.equal(by_id.logits(rows.T), by_fraction.logits(rows.T))
    assert (by_id.logits(rows.T).argmax(0) == ids).float().mean() > 0.95


def test_gradients_are_those_of_autograd():
    g = torch.Generator().manual_seed(0)
    layers = [torch.randn(i + 1, o, generator=g, dtype=torch.float64) for i, o in ((4, 6), (6, 6), (6, 3))]
    x = torch.randn(10, 4, generator=g, dtype=torch.float64)
    targets = torch.rand(10, 3, generator=g, dtype=torch.float64)
    targets /= targets.sum(-1, keepdim=True)
    ours = _gradients(layers, x, targets)
    for layer in layers:
        layer.requires_grad_()
    out = x
    for i, layer in enumerate(layers):
        out = torch.addmm(layer[-1], out.relu() if i else out, layer[:-1])
    loss = -(targets * out.log_softmax(-1)).sum(-1).mean()
    for a, b in zip(ours, torch.autograd.grad(loss, layers), strict=True):
        assert torch.allclose(a, b)


def test_the_optimiser_is_adam_with_decoupled_decay():
    """Against the formulas of the paper, in double precision."""
    rng = np.random.default_rng(0)
    start, gradients = rng.normal(size=(3, 4)), rng.normal(size=(5, 3, 4))
    theta, first, second = start.copy(), np.zeros((3, 4)), np.zeros((3, 4))
    ours = torch.from_numpy(start.copy())
    moments = (torch.zeros_like(ours), torch.zeros_like(ours))
    for t, gradient in enumerate(gradients, 1):
        first, second = 0.9 * first + 0.1 * gradient, 0.999 * second + 0.001 * gradient**2
        step = (first / (1 - 0.9**t)) / (np.sqrt(second / (1 - 0.999**t)) + 1e-8)
        theta = theta - 0.01 * (step + 0.1 * theta)
        _adam(ours, torch.from_numpy(gradient), moments, 0.01, 0.1, t)
    assert np.allclose(ours.numpy(), theta, atol=1e-9)


@pytest.mark.parametrize("threads", [1, 2])
def test_the_result_depends_on_the_seed_alone(threads):
    rows, labels = rings(500)
    settings = LearnSettings(steps=20)
    expected = learn(rows, labels, 1, settings)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        again = learn(rows, labels, 1, settings)
        assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    assert torch.equal(again.first, expected.first)
    assert torch.equal(again.weight, expected.weight)
    assert not torch.equal(learn(rows, labels, 1, LearnSettings(steps=20, seed=1)).weight, expected.weight)


def test_values_far_outside_the_support_do_not_decide_alone():
    rows, labels = rings(500)
    learned = learn(rows, labels, 1, LearnSettings(steps=20))
    far = torch.tensor([[1e6, 1e9], [0.0, 0.0]])
    assert torch.equal(learned.logits(far)[:, 0], learned.logits(far)[:, 1])


def test_a_shift_moves_the_biases():
    rows, labels = rings(500)
    learned = learn(rows, labels, 1, LearnSettings(steps=20))
    moved = learned.shifted(torch.tensor([0.0, 2.0]))
    assert torch.allclose((moved.logits(rows.T) - learned.logits(rows.T)).mean(1), torch.tensor([0.0, 2.0]), atol=1e-5)


def test_constant_features_are_harmless():
    rows = torch.cat([rings(300)[0], torch.full((300, 1), 7.0)], 1)
    assert learn(rows, rings(300)[1], 1, LearnSettings(steps=20)).logits(rows.T).isfinite().all()
