"""PANet against nested loops over pixels."""

import numpy as np
import pytest
import torch

from repri.methods import Episode, Support, build_method
from repri.runtime.errors import RepriError

from .make import check_gradient, copies, episode_of, make_episode, make_shots, overfit
from .reference import half_pixels


def means_by_loops(shots):
    """[2, C]: features are upsampled to the pixels and averaged in each image, then over images."""
    means = np.zeros((2, len(shots[0].features)))
    for shot in shots:
        full = half_pixels(shot.features.double().numpy(), shot.grid.pixels)
        for side in (0, 1):
            total, count = np.zeros(len(full)), 0
            for i in range(full.shape[1]):
                for j in range(full.shape[2]):
                    if shot.mask[i, j] == side:
                        total, count = total + full[:, i, j], count + 1
            means[side] += total / (count + 1e-5) / len(shots)
    return means


def logits_by_loops(means, features):
    out = np.zeros(features.shape[1:])
    for i, j in np.ndindex(*out.shape):
        f = features[:, i, j]
        background, foreground = (m @ f / np.linalg.norm(m) / np.linalg.norm(f) for m in means)
        out[i, j] = 20 * (foreground - background)
    return out


def entropy_by_loops(logits, shot):
    full, values = half_pixels(logits, shot.grid.pixels), []
    for i in range(full.shape[0]):
        for j in range(full.shape[1]):
            if shot.mask[i, j] != 255:
                values.append(np.log1p(np.exp(-full[i, j] if shot.mask[i, j] == 1 else full[i, j])))
    return np.mean(values)


@pytest.mark.parametrize("shots", [1, 2])
def test_untrained_it_is_the_definition_on_upsampled_features(shots):
    *support, query = make_shots(shots + 1)
    wanted = logits_by_loops(means_by_loops(support), query.features.double().numpy())
    found = build_method("panet").predict(episode_of(support, query)).logits
    assert np.abs(found.numpy() - wanted).max() < 1e-4


def test_the_loss_adds_the_one_with_roles_exchanged():
    *support, query = make_shots(3)
    method = build_method("panet", settings={"width": 5})
    with torch.no_grad():
        method.start((5,)).embedding.weight.copy_(torch.eye(5)[..., None, None])
    features = query.features.double().numpy()
    logits = logits_by_loops(means_by_loops(support), features)
    back = np.stack([features[:, (logits > 0) == side].mean(1) for side in (False, True)])
    turned = [entropy_by_loops(logits_by_loops(back, s.features.double().numpy()), s) for s in support]
    wanted = entropy_by_loops(logits, query) + np.mean(turned)
    assert float(method.loss(support, query).detach()) == pytest.approx(wanted, rel=1e-4)
    alone = build_method("panet", settings={"width": 5, "align": 0.0})
    alone.network = method.network
    alone.network.align = 0.0
    assert float(alone.loss(support, query).detach()) == pytest.approx(entropy_by_loops(logits, query), rel=1e-4)


def test_training_starts_from_the_features_as_they_are():
    *support, query = make_shots(2, (5, 6))
    method = build_method("panet", settings={"width": 8})
    method.start((5,))
    wanted = build_method("panet").predict(episode_of(support, query)).logits
    assert torch.allclose(method.predict(episode_of(support, query)).logits, wanted, atol=1e-4)


def test_it_is_the_prototype_where_masks_follow_the_cells():
    """With unit features and one shot, where each cell is all object or all background."""
    episode, _ = make_episode(1)
    unit = [torch.nn.functional.normalize(f, dim=0) for f in (*episode.support.features, episode.query)]
    episode = Episode(Support(unit[:1], episode.support.labels), unit[1])
    wanted = build_method("prototype").predict(episode).logits
    assert torch.allclose(build_method("panet").predict(episode).logits, wanted, atol=1e-3)


def test_copies_scale_and_gradient():
    assert copies(build_method("panet"))
    *support, query = make_shots(2)
    scaled = [shot._replace(features=7 * shot.features) for shot in support]
    method = build_method("panet")
    assert torch.allclose(
        method.predict(episode_of(scaled, query)).logits, method.predict(episode_of(support, query)).logits, atol=1e-4
    )
    check_gradient(build_method("panet", settings={"width": 6}), ["embedding.weight"])


def test_it_learns_one_episode():
    method = build_method("panet", settings={"width": 16})
    assert overfit(method, 0) < 0.8
    assert overfit(method, 60) > 0.95


def test_a_support_without_an_object():
    episode, _ = make_episode(1)
    empty = Support(episode.support.features, [torch.zeros(6, 8)])
    with pytest.raises(RepriError, match="no foreground: mark the object"):
        build_method("panet").predict(Episode(empty, episode.query))
