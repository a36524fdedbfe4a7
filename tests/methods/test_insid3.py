"""INSID3: its steps by loops and scipy, and a planted scene."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy.cluster.hierarchy import fcluster, linkage

from repri.features import FeatureExtractor, InputRule
from repri.methods import Episode, Support, build_method
from repri.methods.insid3 import candidates_of, clusters_of, gathered, positional_basis
from repri.runtime.errors import RepriError


class Places(FeatureExtractor):
    """Features that know where they are."""

    name, channels, stride, fingerprint = "places", 6, 8, "places"
    rule = InputRule(64, 8)

    def _forward(self, images):
        rows = torch.arange(8.0).view(1, 1, 8, 1).expand(1, 1, 8, 8)
        return torch.cat([images[:, :, ::8, ::8], rows, rows.mT, rows * rows.mT], 1)


def test_candidates_by_loops():
    g = torch.Generator().manual_seed(0)
    support = F.normalize(torch.randn(3, 5, 2, 4, generator=g), dim=1)
    object_ = (torch.rand(3, 2, 4, generator=g) > 0.5).float()
    weights = torch.stack([1 - object_, object_], 1)
    weights[0, :, 0, 0] = 0  # a cell without a label
    cells = F.normalize(torch.randn(20, 5, generator=g), dim=1)
    matched, alike = candidates_of(support, weights, cells)
    means = [np.mean([support[k, :, i, j].numpy() for i, j in np.argwhere(weights[k, 1].numpy())], 0) for k in range(3)]
    mean = np.mean(means, 0) / np.linalg.norm(np.mean(means, 0))
    for n, cell in enumerate(cells.numpy()):
        votes = 0
        for k in range(3):
            best, inside = -2.0, False
            for i, j in np.ndindex(2, 4):
                if weights[k, :, i, j].sum() and support[k, :, i, j].numpy() @ cell > best:
                    best, inside = support[k, :, i, j].numpy() @ cell, bool(weights[k, 1, i, j])
            votes += inside
        assert alike[n] == pytest.approx(cell @ mean, abs=1e-5)
        assert bool(matched[n]) == (cell @ mean > 0 and votes >= 2)


def test_if_nothing_resembles_the_object_a_tenth_of_the_cells_may():
    cells = F.normalize(torch.stack([torch.linspace(-2, -1, 30), torch.linspace(0, 3, 30)], 1), dim=1)
    support = torch.tensor([1.0, 0.0]).view(1, 2, 1, 1)
    matched, alike = candidates_of(support, torch.tensor([0.0, 1.0]).view(1, 2, 1, 1), cells)
    assert (alike <= 0).all()
    assert matched.sum() == 3
    assert matched[alike.topk(3).indices].all()


def test_clusters_are_scipys():
    cells = torch.randn(40, 3, generator=torch.Generator().manual_seed(0)).double()
    wanted = fcluster(linkage(cells.numpy(), "average", "cosine"), 0.4, "distance")
    found = clusters_of(cells, 0.4).numpy()
    assert np.array_equal(found[:, None] == found, wanted[:, None] == wanted)
    assert found[0] == 0
    assert set(found) == set(range(found.max() + 1))
    assert clusters_of(cells[:1], 0.4).tolist() == [0]


def test_the_score_of_clusters():
    cells = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.8, 0.6], [0.8, 0.6], [0.0, 1.0]])
    clusters, matched = torch.tensor([0, 0, 1, 1, 2]), torch.tensor([True, False, True, False, False])
    alike = torch.tensor([0.9, 0.7, 0.8, 0.6, 0.1])
    scores = [0.8, 0.7 * 0.8 * 0.5]  # the seed, and its neighbour of which half are candidates
    for threshold, inside in ((0.9, 0), (0.5, 2), (scores[1] + 1e-3, 2), (scores[1] - 1e-3, 4), (-0.1, 5)):
        assert gathered(cells, clusters, matched, alike, threshold).sum() == inside
    assert not gathered(cells, clusters, torch.zeros(5, dtype=torch.bool), alike, 0.0).any()


def test_directions_of_position():
    features = torch.randn(12, 6, 7, generator=torch.Generator().manual_seed(0))
    basis = positional_basis(features, 4)
    projector = basis @ basis.T
    assert torch.allclose(projector @ projector, projector, atol=1e-5)
    assert torch.linalg.matrix_rank(projector) == 4
    with pytest.raises(RepriError, match="rank must be below the 12 channels"):
        positional_basis(features, 12)
    method = build_method("insid3", settings={"rank": 3})
    episode = Episode(Support([features], [torch.ones(6, 7)]), features)
    with pytest.raises(RepriError, match="has to look at the extractor first"):
        method.predict(episode)
    method.prepare(Places())
    assert method.basis.shape[1] == 3
    with pytest.raises(RepriError, match="rank must be an integer of at least 0"):
        build_method("insid3", settings={"rank": -1})


def test_a_planted_scene():
    """An object of two textures, which the query shows twice, on a ground of its own."""
    g = torch.Generator().manual_seed(0)
    one, two, ground, other = F.normalize(torch.randn(4, 32, generator=g), dim=1)
    two = F.normalize(one + 0.7 * two, dim=0)

    def scene(corners, ground):
        features, mask = ground[:, None, None].repeat(1, 12, 12), torch.zeros(12, 12)
        for top, left in corners:
            features[:, top : top + 3, left : left + 2] = one[:, None, None]
            features[:, top : top + 3, left + 2 : left + 4] = two[:, None, None]
            mask[top : top + 3, left : left + 4] = 1
        return features + 0.02 * torch.randn(32, 12, 12, generator=g), mask

    (shot, mask), (query, truth) = scene([(4, 4)], ground), scene([(1, 1), (7, 6)], other)
    method = build_method("insid3")
    assert torch.equal(method.predict(Episode(Support([shot], [mask]), query)).logits > 0, truth == 1)
    valid = torch.ones(12, 12, dtype=torch.bool)
    valid[:, 6:] = False
    partly = method.predict(Episode(Support([shot], [mask]), query, valid)).logits > 0
    assert torch.equal(partly, (truth == 1) & valid)
    with pytest.raises(RepriError, match="no foreground"):
        method.predict(Episode(Support([shot], [0 * mask]), query))
