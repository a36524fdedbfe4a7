"""The merge of BAM: nothing at the start, and its formula."""

import numpy as np
import pytest
import torch

from repri.methods import build_method
from repri.methods.bam import unlikeness
from repri.runtime.errors import RepriError

from .make import check_gradient, episode_of, make_shots


@pytest.mark.parametrize("of", ["prototype", "panet"])
def test_at_the_start_it_is_the_other_method(of):
    *support, query = make_shots(3, (5, 6))
    method = build_method("bam", settings={"of": of})
    method.start((5,))
    episode = episode_of(support, query)
    wanted = build_method(of).predict(episode).logits.sigmoid().clamp(1e-4, 1 - 1e-4)
    assert torch.allclose(method.predict(episode).logits.sigmoid(), wanted, atol=1e-5)


def test_unlikeness_by_loops():
    g = torch.Generator().manual_seed(0)
    support, query = torch.randn(4, 2, 3, generator=g), torch.randn(4, 3, 3, generator=g)
    total = 0
    for i in range(4):
        for j in range(4):
            values = []
            for maps in (support, query):
                a, b = maps[i].flatten().numpy(), maps[j].flatten().numpy()
                values.append(a @ b / np.linalg.norm(a) / np.linalg.norm(b))
            total += (values[1] - values[0]) ** 2
    assert float(unlikeness(support, query)) == pytest.approx(np.sqrt(total) / 4, rel=1e-4)


def test_the_formula():
    shot, query = make_shots(2, (5, 6))
    method = build_method("bam", settings={"classes": 3})
    network = method.start((5,))
    network.own.data, network.both.data = torch.tensor([0.8, 0.3]), torch.tensor([0.9, 0.5])
    logits = torch.randn(5, 6)
    p, psi = logits.sigmoid(), unlikeness(shot.features, query.features)
    base = network.base(query.features[None])[0].softmax(0)
    for target, shown in ((None, base[1:].sum(0)), (3, base[1] + base[2])):
        wanted = 0.8 * p + 0.3 * psi - (0.9 * (0.8 * (1 - p) + 0.3 * psi) + 0.5 * shown)
        found = network.merged(logits, shot.features[None], query.features, target)
        assert torch.allclose(found, wanted, atol=1e-5)
    assert network(shot.features[None], torch.rand(1, 2, 5, 6), query.features).logits.shape == (5, 6)


def test_training():
    check_gradient(build_method("bam"), ["own", "both", "base.weight"])
    method = build_method("bam")
    network = method.start((5,))
    *support, query = make_shots(2)
    losses = []
    for _ in range(30):
        network.zero_grad()
        losses.append(method.loss(support, query))
        losses[-1].backward()
        for p in network.parameters():
            p.data -= 0.1 * p.grad
    assert losses[-1].item() < 0.7 * losses[0].item()
    assert network.own.tolist() != [1, 0]
    with pytest.raises(RepriError, match="needs the base classes of every pixel"):
        method.loss(support, query._replace(classes=None))
