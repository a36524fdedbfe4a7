"""PPNet: its k-means against scipy's, and PANet as its limit."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy.cluster.vq import kmeans2

from repri.methods import build_method
from repri.methods.ppnet import kmeans
from repri.runtime.errors import RepriError

from .make import check_gradient, copies, episode_of, make_shots, overfit


def means(cells, which):
    return torch.stack([cells[which == n].mean(0) for n in range(int(which.max()) + 1)])


def test_kmeans_is_scipys():
    g = torch.Generator().manual_seed(0)
    cells = torch.randn(60, 4, generator=g, dtype=torch.float64) + 4 * torch.randint(0, 3, (60, 1), generator=g)
    starts = cells[[0, 20, 40]]
    which = kmeans(cells, torch.ones(60, dtype=torch.float64), 3, starts=starts)
    centres, labels = kmeans2(cells.numpy(), starts.numpy(), 10, minit="matrix")
    assert np.array_equal(which.numpy(), labels)
    assert np.allclose(means(cells, which).numpy(), centres)


def test_inertia_never_rises_and_no_cluster_is_empty(monkeypatch):
    cells = torch.randn(50, 3, generator=torch.Generator().manual_seed(1))
    inertia = []
    for rounds in range(1, 8):
        monkeypatch.setattr("repri.methods.ppnet.ROUNDS", rounds)
        which = kmeans(cells, torch.ones(50), 5)
        inertia.append(float(((cells - means(cells, which)[which]) ** 2).sum()))
    assert all(b <= a + 1e-4 for a, b in pairwise(inertia))
    assert inertia[-1] < inertia[0]
    same = torch.ones(7, 3)
    assert kmeans(same, torch.ones(7), 5).tolist() == [0] * 7
    starts = torch.tensor([[0.0, 0.0, 0.0], [90.0, 90.0, 90.0]])
    assert kmeans(same, torch.ones(7), 5, starts=starts).max() == 0


def test_weights_count_as_copies():
    cells = torch.tensor([[0.0], [1.0], [10.0]])
    double = torch.cat([cells, cells[:1], cells[:1]])
    weights = torch.tensor([3.0, 1.0, 1.0])
    assert kmeans(cells, weights, 2).tolist() == kmeans(double, torch.ones(5), 2)[:3].tolist()


def test_one_part_and_a_large_shift_are_panet():
    *support, query = make_shots(2, (5, 6))
    wanted = build_method("panet").predict(episode_of(support, query)).logits
    one = build_method("ppnet", settings={"parts": 1}).predict(episode_of(support, query)).logits
    far = build_method("ppnet", settings={"shift": 1e6}).predict(episode_of(support, query)).logits
    parts = build_method("ppnet").predict(episode_of(support, query)).logits
    assert torch.allclose(one, wanted, atol=1e-4)
    assert torch.allclose(far, wanted, atol=1e-2)
    assert not torch.allclose(parts, wanted, atol=1e-1)


def test_copies_seeds_and_gradient():
    assert copies(build_method("ppnet"))
    *support, query = make_shots(2, (5, 6))
    first, again, other = (
        build_method("ppnet", settings={"seed": seed}).predict(episode_of(support, query)).logits for seed in (0, 0, 1)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    method = build_method("ppnet", settings={"width": 6, "parts": 2, "semantic": 0.1, "classes": 3})
    check_gradient(method, ["embedding.weight", "classify.weight"])


def test_it_learns_one_episode():
    assert overfit(build_method("ppnet", settings={"width": 16, "parts": 3}), 60) > 0.95


def test_the_semantic_loss_needs_classes():
    *support, query = make_shots(2)
    method = build_method("ppnet", settings={"semantic": 0.1})
    method.start((5,))
    with pytest.raises(RepriError, match="needs the base classes of every pixel"):
        method.loss([s._replace(classes=None) for s in support], query)
