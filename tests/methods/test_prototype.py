"""The nearest mean, against its definition."""

import pytest
import torch
import torch.nn.functional as F

from repri.methods import Episode, Support, build_method
from repri.runtime.errors import RepriError

from .make import make_episode


def test_it_is_the_nearest_mean():
    episode, _ = make_episode(1)
    rows, labels = F.normalize(episode.support.features[0], dim=0).flatten(1).T, episode.support.labels[0].flatten()
    query = F.normalize(episode.query, dim=0)
    means = [F.normalize(rows[labels == k].mean(0), dim=0) for k in (0, 1)]
    expected = 20 * torch.einsum("c,chw->hw", means[1] - means[0], query)
    assert torch.allclose(build_method("prototype").predict(episode).logits, expected, atol=1e-4)
    warmer = build_method("prototype", settings={"temperature": 2}).predict(episode).logits
    assert torch.allclose(warmer, expected / 10, atol=1e-4)


def test_unlabelled_cells_and_soft_labels_count_by_their_weight():
    episode, _ = make_episode(1)
    features, labels = episode.support.features[0], episode.support.labels[0].float()
    soft = torch.where(labels == 1, 0.75, 0.0)
    soft[0] = 255
    rows = F.normalize(features, dim=0)
    known = soft != 255
    object_ = (rows * torch.where(known, soft, 0)).sum((1, 2))
    ground = (rows * torch.where(known, 1 - soft, 0)).sum((1, 2))
    direction = F.normalize(object_, dim=0) - F.normalize(ground, dim=0)
    expected = 20 * torch.einsum("c,chw->hw", direction, F.normalize(episode.query, dim=0))
    found = build_method("prototype").predict(Episode(Support([features], [soft]), episode.query)).logits
    assert torch.allclose(found, expected, atol=1e-4)


def test_mistakes_are_named():
    episode, _ = make_episode(1)
    empty = Support(episode.support.features, [torch.zeros(6, 8)])
    with pytest.raises(RepriError, match="The support labels hold no foreground: mark the object in at least one"):
        build_method("prototype").predict(Episode(empty, episode.query))
    with pytest.raises(RepriError, match="temperature must be a finite number above 0, got 0"):
        build_method("prototype", settings={"temperature": 0})
