"""RePRI and its ablations are one call of ``infer``."""

from dataclasses import replace

import pytest
import torch

from repri import InferenceConfig, infer
from repri.methods import RePRI, build_method
from repri.runtime.errors import RepriError

from .make import make_episode


@pytest.mark.parametrize("preset", ["official", "clean"])
def test_it_is_infer(preset):
    episode, _ = make_episode(told=False)
    found = build_method("repri", preset).predict(episode)
    features, labels = episode.support.stacked
    expected = infer(features[None], labels[None], episode.query[None], InferenceConfig.preset(preset))
    assert torch.allclose(torch.sigmoid(found.logits), expected.probability[0], atol=1e-5)
    assert found.proportion == pytest.approx(float(expected.proportion), abs=1e-6)
    assert found.initial_proportion == pytest.approx(float(expected.initial_probability.mean()), abs=1e-6)


def test_ablations_leave_terms_out():
    clean = InferenceConfig.preset("clean")
    assert build_method("ce").config == clean.without("h", "kl")
    assert build_method("ce_h").config == clean.without("kl")
    assert build_method("repri-oracle").config == clean.oracle()
    assert build_method("repri").settings()["steps"] == 50


def test_a_known_proportion_is_kept():
    """Also by the method that estimates it otherwise, which then has the oracle's settings."""
    episode, _ = make_episode()
    usual, oracle = (build_method(name).predict(episode) for name in ("repri", "repri-oracle"))
    assert usual.proportion == oracle.proportion == pytest.approx(episode.proportion)
    assert torch.equal(usual.logits, oracle.logits)
    misled = build_method("repri-oracle", settings={"delta": 0.5}).predict(episode)
    assert misled.proportion == pytest.approx(1.5 * episode.proportion)


def test_a_batch_shares_its_support_and_changes_nothing():
    episode, _ = make_episode(told=False)
    valid = torch.ones(6, 8, dtype=torch.bool)
    valid[4:] = False
    others = [episode, replace(episode, query=episode.query.flip(2)[:, :5, :7]), replace(episode, query_valid=valid)]
    method = build_method("repri")
    for one, together in zip(others, method.predict_many(others), strict=True):
        alone = method.predict(one)
        assert together.logits.shape == one.query.shape[1:]
        torch.testing.assert_close(together.logits, alone.logits, atol=1e-3, rtol=1e-3)
        assert together.proportion == pytest.approx(alone.proportion, abs=1e-4)
    with pytest.raises(ValueError, match="either all episodes of a batch have a known proportion, or none"):
        method.predict_many([episode, replace(episode, proportion=0.2)])


def test_delta_is_for_oracles():
    with pytest.raises(RepriError, match="delta perturbs the proportion that an oracle is told, and ce is told none"):
        RePRI("ce", InferenceConfig.preset("clean"), 0.3)
