"""Mixtures of prototypes against numpy, and what expectation maximisation promises."""

from itertools import pairwise

import numpy as np
import pytest
import torch

from repri.methods import build_method
from repri.methods.pmm import match, mixture

from .make import copies, episode_of, make_shots


def test_it_is_expectation_maximisation_in_numpy():
    cells = torch.randn(40, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64).relu()
    start = mixture(cells, 3, seed=5, rounds=0).numpy()
    for _ in range(10):
        chances = np.zeros((40, 3))
        for n in range(40):
            scores = np.array([np.exp(20 * (cells[n].numpy() @ start[k]) - 60) for k in range(3)])
            chances[n] = scores / scores.sum()
        sums = np.array([sum(chances[n, k] * cells[n].numpy() for n in range(40)) for k in range(3)])
        sums /= chances.sum(0)[:, None] + 1e-6
        start = sums / (np.linalg.norm(sums, axis=1, keepdims=True) + 1e-6)
    assert np.abs(mixture(cells, 3, seed=5).numpy() - start).max() < 1e-9


@pytest.mark.parametrize("seed", range(5))
def test_the_objective_never_falls(seed):
    cells = torch.randn(50, 8, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    values = []
    for rounds in range(8):
        means = mixture(cells, 4, seed, rounds)
        values.append(float((20 * cells @ means.T).logsumexp(1).sum()))
    assert all(b >= a - 1e-4 for a, b in pairwise(values))
    assert values[-1] > values[0]


def test_one_prototype():
    cells = torch.randn(30, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    other = torch.randn(20, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    means = [mixture(side, 1, 0, rounds=1) for side in (other, cells)]
    assert torch.allclose(means[1][0], cells.sum(0) / cells.sum(0).norm(), atol=1e-5)
    query = torch.randn(5, 2, 3, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    wanted = torch.einsum("c,chw->hw", means[1][0] - means[0][0], query)
    assert torch.allclose(match(query, means), wanted)


def test_cells_of_weight_zero_and_copies_do_not_matter():
    cells = torch.randn(30, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    wanted = mixture(cells, 3, 0)
    assert torch.allclose(mixture(torch.cat([cells, torch.zeros(9, 5)]), 3, 0), wanted, atol=1e-5)
    assert torch.allclose(mixture(cells.repeat(4, 1), 3, 0), wanted, atol=1e-5)
    assert copies(build_method("pmm"), tolerance=1e-3)
    assert mixture(cells[:0], 2, 0).shape == (2, 5)


def test_the_match_is_one_softmax_over_all_prototypes():
    g = torch.Generator().manual_seed(0)
    sides, query = [torch.randn(3, 5, generator=g) for _ in range(2)], torch.randn(5, 2, 2, generator=g)
    every = torch.einsum("kc,chw->khw", torch.cat(sides), query).softmax(0)
    assert torch.allclose(match(query, sides).sigmoid(), every[3:].sum(0), atol=1e-6)


def test_settings():
    *support, query = make_shots(2, (5, 6))
    episode = episode_of(support, query)
    unit, plain = (build_method("pmm", settings={"unit": unit}).predict(episode).logits for unit in (True, False))
    assert not torch.allclose(unit, plain)
    assert build_method("pmm", settings={"parts": 2}).settings()["parts"] == 2
