"""``--dry-run``."""

import pytest

from repri.runtime.distributed import World
from repri.training import prepare
from repri.training.estimate import measure

from .make import DISCRIMINANT


def test_a_store_that_is_too_small_is_noticed(make, monkeypatch):
    monkeypatch.setenv("REPRI_STORE_GB", "0.01")
    plan = prepare(make({"data.size": 112}))
    with pytest.raises(ValueError, match=r"features of 30 images take 0\.012 GB and the store may hold 0\.01 GB"):
        measure(plan, World())


def test_nothing_is_learned_while_it_is_measured(make):
    plan = prepare(make())
    before = [p.clone() for p in plan.trainee.parameters()]
    assert "a step takes" in measure(plan, World())
    assert all((a == b).all() for a, b in zip(before, plan.trainee.parameters(), strict=True))
    assert not plan.folder.exists() or not list(plan.folder.iterdir())


def test_one_pass_is_measured_by_images(make):
    plan = prepare(make(DISCRIMINANT | {"data.images": 2, "optimiser.batch": 8}))
    assert "an image takes" in measure(plan, World())
    assert "one pass over the features, then algebra" in plan.summary()


def test_parameters_are_counted(make):
    assert "0.00 M frozen" in prepare(make()).summary()[3]  # filters have no parameters
    assert "5.65 M frozen" in prepare(make({"network.name": "distilled"})).summary()[3]
