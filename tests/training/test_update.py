"""One update of the network."""

import pytest
import torch

from repri.runtime.distributed import World
from repri.training import prepare, train
from repri.training.update import Learner


def test_parts_of_a_batch_add_up(make, trained):
    """Without norms in the way, two accumulated halves give the gradient of the whole."""
    gradients = []
    for accumulate in (1, 2):
        plan = prepare(make({"optimiser.accumulate": accumulate, "head.dropout": 0.0}))
        learner = Learner(plan.trainee.eval(), plan.settings, World())
        learner.set_rate(0.0)
        (batch,) = trained.plan.examples.batches([[0, 1, 2, 3]], 0)
        loss, _ = learner.update(batch, 0)
        gradients.append([torch.tensor(loss), *(p.grad for p in plan.trainee.parameters())])
    for whole, halves in zip(*gradients, strict=True):
        torch.testing.assert_close(whole, halves, rtol=1e-4, atol=1e-5)


def test_a_gradient_that_is_no_number_changes_nothing(make):
    plan = prepare(make())
    plan.trainee.classifier.weight.register_hook(lambda gradient: gradient * float("nan"))
    with pytest.raises(ValueError, match="The loss is nan"):
        train(plan)
    assert all(p.isfinite().all() for p in plan.trainee.parameters())


def test_a_loss_that_is_no_number_stops_with_the_batch(make):
    plan = prepare(make({"optimiser.lr": 1e30}))
    with pytest.raises(ValueError, match=r"The loss is (nan|inf) at step \d+ .* with the images train\d+"):
        train(plan)
