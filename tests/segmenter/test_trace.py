"""The record of the steps, and the segmenter with a part of the objective."""

import pytest

from repri.methods import RePRI
from repri.runtime.errors import RepriError
from repri.segmenter.trace import LOSSES, trace, with_loss


def test_the_last_step_leads_to_the_result(fitted, pair):
    seen = fitted.look.see(pair[1].image)
    steps = trace(fitted, seen, "object")
    assert len(steps.loss) == fitted.classifier.method.config.steps
    assert steps.loss[-1] < steps.loss[0]
    assert steps.proportion[-1] == pytest.approx(fitted.segment(pair[1].image).proportion, abs=1e-5)
    weights = fitted.classifier.method.config.transduction
    assert steps.loss[0] == pytest.approx(steps.ce[0] + weights * (steps.entropy[0] + steps.kl[0]), abs=1e-4)


def test_a_known_proportion_is_followed(fitted, pair):
    seen = fitted.look.see(pair[1].image)
    steps = trace(fitted, seen, "object", 0.3)
    assert steps.proportion == pytest.approx([0.3] * len(steps.kl))
    assert len(steps.kl) == fitted.classifier.method.config.oracle_steps
    assert abs(steps.marginal[-1] - 0.3) < abs(steps.marginal[0] - 0.3)


def test_every_loss_gives_another_map(fitted, pair):
    seen = fitted.look.see(pair[1].image)
    maps = [with_loss(fitted, loss).segment_seen(pair[1].image, seen).probability for loss in LOSSES]
    assert all((a != b).any() for i, a in enumerate(maps) for b in maps[:i])
    assert isinstance(with_loss(fitted, "ce").classifier.method, RePRI)
    assert not trace(with_loss(fitted, "initial"), seen, "object").loss


def test_unknown_names_are_explained(fitted, pair):
    with pytest.raises(RepriError, match="no loss named 'kl'"):
        with_loss(fitted, "kl")
    with pytest.raises(RepriError, match="no class 'cat'"):
        trace(fitted, fitted.look.see(pair[1].image), "cat")
