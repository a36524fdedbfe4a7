"""The terms of RePRI on a linear classifier, against automatic differentiation."""

import pytest
import torch

from repri import RepriError
from repri.inference import InferenceConfig, adapt


def problem(seed=0, classes=2, features=5):
    g = torch.Generator().manual_seed(seed)
    weight, bias = torch.randn(features, classes + 1, generator=g), torch.randn(classes + 1, generator=g)
    support, query = torch.randn(40, features, generator=g), torch.randn(60, features, generator=g) + 0.5
    targets = torch.rand(40, classes + 1, generator=g)
    return weight, bias, support, targets / targets.sum(1, keepdim=True), query


def one_step_by_autograd(weight, bias, support, targets, query, lambda_h, lambda_kl, pi, lr):
    """One step of plain gradient descent on CE + λ_H·H + λ_KL·KL(p̂‖π)."""
    w, b = weight.double().requires_grad_(), bias.double().requires_grad_()
    support, targets, query = support.double(), targets.double(), query.double()
    p = (query @ w + b).softmax(1)
    marginal = p.mean(0)
    ce = -(targets * (support @ w + b).log_softmax(1)).sum(1).mean()
    entropy = -(p * p.log()).sum(1).mean()
    kl = (marginal * (marginal.log() - pi.double().log())).sum()
    gradients = torch.autograd.grad(ce + lambda_h * entropy + lambda_kl * kl, (w, b))
    step = lr / query.square().sum(1).mean()
    return w - step * gradients[0], b - lr * gradients[1]


@pytest.mark.parametrize(("lambda_h", "lambda_kl"), [(0.0, 0.0), (0.7, 0.0), (0.0, 1.3), (0.7, 1.3)])
def test_a_step_is_the_gradient_of_the_objective(lambda_h, lambda_kl):
    weight, bias, support, targets, query = problem()
    pi = torch.tensor([0.5, 0.2, 0.3])
    config = InferenceConfig(steps=1, lr=0.3, lambda_h=lambda_h, lambda_kl=lambda_kl, t_pi=None)
    adapted = adapt(weight, bias, support, targets, query, config, pi[1:])
    expected = one_step_by_autograd(weight, bias, support, targets, query, lambda_h, lambda_kl, pi, 0.3)
    assert torch.allclose(adapted.weight.double(), expected[0], atol=1e-6)
    assert torch.allclose(adapted.bias.double(), expected[1], atol=1e-6)


def test_no_steps_leave_the_classifier_as_it_is():
    weight, bias, support, targets, query = problem()
    adapted = adapt(weight, bias, support, targets, query, InferenceConfig(steps=0))
    assert torch.equal(adapted.weight, weight)
    assert torch.equal(adapted.bias, bias)
    assert torch.allclose(adapted.proportion, (query @ weight + bias).softmax(1).mean(0))


def test_the_query_gets_the_proportion_that_is_known():
    weight, bias, support, targets, query = problem(classes=1)
    config = InferenceConfig.preset("learned").oracle().replace(lr=0.2)
    config = config.replace(lambda_kl=20.0)
    adapted = adapt(weight, bias, support, targets, query, config, torch.tensor([0.1]))
    mean = (query @ adapted.weight + adapted.bias).softmax(1).mean(0)[1]
    assert abs(float(mean) - 0.1) < 0.03


def test_entropy_makes_the_query_more_certain():
    weight, bias, support, targets, query = problem()

    def entropy(config):
        w, b, _ = adapt(weight, bias, support, targets, query, config)
        p = (query @ w + b).softmax(1)
        return float(-(p * p.log()).sum(1).mean())

    config = InferenceConfig.preset("learned").without("kl")
    assert entropy(config.replace(lambda_h=3.0)) < entropy(config.replace(lambda_h=0.0)) - 0.01


def test_an_oracle_without_a_proportion_is_refused():
    with pytest.raises(RepriError, match=r"need a known proportion: give proportion=\."):
        adapt(*problem(), InferenceConfig.preset("learned").oracle())
