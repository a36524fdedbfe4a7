"""Logistic regression, against automatic differentiation and scikit-learn."""

import numpy as np
import pytest
import torch

from repri.inference import fit_logistic


def problem(cells=400, features=12, classes=2, seed=0):
    g = torch.Generator().manual_seed(seed)
    means = torch.randn(classes + 1, features, generator=g)
    labels = torch.randint(classes + 1, (cells,), generator=g)
    rows = means[labels] + 1.5 * torch.randn(cells, features, generator=g)
    return rows, torch.nn.functional.one_hot(labels, classes + 1).float()


@pytest.mark.parametrize("classes", [1, 4])
@pytest.mark.parametrize("balance", [0.0, 0.5])
def test_the_gradient_of_the_objective_is_zero_at_the_result(classes, balance):
    rows, targets = problem(classes=classes)
    targets = 0.9 * targets + 0.1 / (classes + 1)  # soft labels too
    weight, bias = fit_logistic(rows, targets, None, 1e-3, balance)
    w, b = weight.double().requires_grad_(), bias.double().requires_grad_()
    mass = (targets @ targets.mean(0).pow(-balance)).double()
    losses = -(targets.double() * (rows.double() @ w + b).log_softmax(1)).sum(1)
    loss = (mass * losses).sum() / mass.sum() + 1e-3 * w.square().sum()
    gradients = torch.autograd.grad(loss, (w, b))
    assert max(float(g.abs().max()) for g in gradients) < 3e-3


def test_it_agrees_with_scikit_learn():
    linear = pytest.importorskip("sklearn.linear_model", reason="the extra forest is not installed")
    rows, targets = problem(classes=2)
    weight, bias = fit_logistic(rows, targets, balance=0.0, steps=500)
    theirs = linear.LogisticRegression(C=1 / (2 * 1e-3 * len(rows)), tol=1e-8, max_iter=2000)
    theirs.fit(rows.double().numpy(), targets.argmax(1).numpy())
    expected = theirs.predict_proba(rows.double().numpy())
    assert np.abs((rows @ weight + bias).softmax(1).numpy() - expected).max() < 0.01


def test_a_rare_class_counts_more_with_balance():
    g = torch.Generator().manual_seed(1)
    rows = torch.cat([torch.randn(990, 2, generator=g), torch.randn(10, 2, generator=g) + 1.5])
    targets = torch.nn.functional.one_hot((torch.arange(1000) >= 990).long(), 2).float()
    claims = [int((rows @ w + b).argmax(1).sum()) for w, b in (fit_logistic(rows, targets, balance=p) for p in (0, 1))]
    assert claims[0] < 10 < claims[1]


def test_cells_without_variation_are_no_problem():
    rows, targets = problem(classes=1)
    rows = torch.cat([rows, torch.ones(len(rows), 3), torch.zeros(len(rows), 2)], 1)
    weight, bias = fit_logistic(rows, targets)
    assert torch.isfinite(weight).all()
    assert torch.isfinite(bias).all()


def test_a_row_may_stand_for_several_cells():
    rows, targets = problem(classes=1)
    counts = torch.where(targets[:, 0] == 1, 3.0, 1.0)
    repeated = torch.arange(len(rows)).repeat_interleave(counts.long())
    ours, theirs = fit_logistic(rows, targets, counts), fit_logistic(rows[repeated], targets[repeated])
    assert torch.allclose(ours.weight, theirs.weight, atol=1e-4)
