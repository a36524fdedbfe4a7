"""Learning rates, groups of parameters, seeds."""

import pytest
import torch

from repri.training.schedule import build_optimiser, learning_rate, step_seed

from .make import SMALL, settings_from


def test_the_rate_falls_like_a_cosine():
    settings = settings_from({"optimiser.lr": 0.1})
    assert [learning_rate(settings, i, 10) for i in (0, 5, 10)] == pytest.approx([0.1, 0.05, 0.0])
    assert learning_rate(settings_from({"protocol": "official"}), 10, 10) == pytest.approx(1e-6)


def test_the_rate_falls_by_a_power_or_in_steps():
    settings = settings_from({"optimiser.lr": 0.1, "optimiser.schedule": "poly"})
    assert [learning_rate(settings, i, 10) for i in (0, 5, 10)] == pytest.approx([0.1, 0.1 * 0.5**0.9, 0.0])
    drops = {"optimiser.schedule": "step", "optimiser.drops": [10, 20], "optimiser.epochs": 30}
    settings = settings_from({"optimiser.lr": 1e-3} | drops)
    rates = [learning_rate(settings, i, 30_000) for i in (0, 9_999, 10_000, 19_999, 20_000, 29_999)]
    assert rates == pytest.approx([1e-3, 1e-3, 1e-4, 1e-4, 1e-5, 1e-5])


def test_the_rate_rises_during_the_warm_up():
    settings = settings_from({"optimiser.warmup": 4, "optimiser.lr": 0.1})
    rates = [round(learning_rate(settings, i, 10**6) / 0.1, 3) for i in range(6)]
    assert rates == [0.25, 0.5, 0.75, 1, 1, 1]


def test_the_classifier_has_a_factor(trained):
    trainee = trained.plan.trainee
    body, classifier = build_optimiser(
        trainee, settings_from(SMALL | {"optimiser.classifier_factor": 5.0}), trainee.last
    ).param_groups
    assert (body["factor"], classifier["factor"]) == (1.0, 5.0)
    assert {id(p) for p in classifier["params"]} == {id(p) for p in trainee.last.parameters()}
    assert len(body["params"]) + len(classifier["params"]) == len(list(trainee.parameters()))


@pytest.mark.parametrize(
    ("changes", "nesterov"),
    [({}, False), ({"protocol": "official"}, True), ({"protocol": "official", "optimiser.nesterov": False}, False)],
)
def test_the_protocol_decides_about_nesterov(trained, changes, nesterov):
    optimiser = build_optimiser(trained.plan.trainee, settings_from(SMALL | changes))
    assert isinstance(optimiser, torch.optim.SGD)
    assert {group["nesterov"] for group in optimiser.param_groups} == {nesterov}


def test_seeds_differ():
    seeds = {step_seed(*key) for key in ((0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1))}
    assert len(seeds) == 4
    assert all(0 <= seed < 2**63 for seed in seeds)
