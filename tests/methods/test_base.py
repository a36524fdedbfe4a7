"""The interface of methods, and what every method must do."""

import pytest
import torch

from repri.methods import METHODS, Method, Prediction, Support, build_method

from .make import make_episode

OURS = ("prototype", "forest", "ce", "ce_h", "repri", "repri-oracle", "panet", "ppnet", "pmm", "insid3")


@pytest.mark.parametrize("preset", ["clean", "official", "paper"])
@pytest.mark.parametrize("name", OURS)
@pytest.mark.parametrize("ragged", [False, True])
def test_every_method_segments_an_easy_object(name, preset, ragged):
    method = build_method(name, preset)
    episode, truth = make_episode(ragged=ragged, told=method.oracle)
    prediction = method.predict(episode)
    assert prediction.logits.shape == truth.shape
    assert ((prediction.logits > 0) == (truth == 1)).float().mean() > 0.9
    assert method.name == name
    assert METHODS.about(name)


def test_shots_of_different_shapes_are_stacked():
    episode, _ = make_episode(ragged=True)
    features, labels = episode.support.stacked
    assert features.shape == (2, 16, 8, 8)
    assert (labels[0, 6:] == 255).all()
    assert (labels[1, :, 6:] == 255).all()
    assert torch.equal(features[1, :, :, :6], episode.support.features[1])
    assert Support([torch.rand(4, 2, 2)], [torch.zeros(2, 2)]).stacked[0].shape == (1, 4, 2, 2)


def test_a_batch_is_one_prediction_after_the_other():
    class Mean(Method):
        name = "mean"

        def predict(self, episode):
            return Prediction(episode.query.mean(0))

    episodes = [make_episode()[0], make_episode(1)[0]]
    found = Mean().predict_many(episodes)
    assert all(torch.equal(p.logits, e.query.mean(0)) for p, e in zip(found, episodes, strict=True))
    assert Mean().settings() == {}
    assert not Mean.oracle
