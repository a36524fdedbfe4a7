"""The head of RPMM against numpy."""

import numpy as np
import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F

from repri.methods import build_method
from repri.methods.pmm import match, mixture, sides_of
from repri.methods.rpmm import tiled_convolution

from .make import check_gradient, episode_of, make_shots, overfit
from .reference import convolve, relu


def test_number_of_parameters():
    with torch.device("meta"):
        networks = [build_method("rpmm").build(widths) for widths in ((512, 1024), (384,))]
    counts = [sum(p.numel() for p in network.parameters()) for network in networks]
    assert counts[0] == 11_089_666
    assert counts[1] == pytest.approx(8.4e6, rel=0.01)


@pytest.mark.parametrize("size", [(1, 1), (2, 5), (7, 6)])
def test_one_convolution_replaces_many(size):
    convolution = nn.Conv2d(7, 3, 3, padding=2, dilation=2)
    features, vectors = torch.randn(1, 4, *size), torch.randn(5, 3)
    for vector, found in zip(vectors, tiled_convolution(convolution, features, vectors), strict=True):
        tiled = vector[None, :, None, None].expand(1, -1, *size)
        assert torch.allclose(convolution(torch.cat([features, tiled], 1))[0], found, atol=1e-5)


def head_in_numpy(state, features, prototypes, matched):
    """Logits of every pass [3, h, w]."""
    height, width = features.shape[1:]
    history, passes = np.zeros((2, height, width)), []
    for vectors, both in zip(prototypes, matched, strict=True):
        x = 0
        for vector in vectors:
            tiled = np.broadcast_to(vector[:, None, None], (len(vector), height, width))
            x = x + relu(convolve(np.concatenate([features, tiled]), state["steer.weight"], state["steer.bias"], 2))
        x = relu(convolve(np.concatenate([x, both]), state["duplex.0.weight"], state["duplex.0.bias"]))
        for i in range(3):
            inner = relu(np.concatenate([x, history]) if i == 0 else x)
            for place in (1, 3):
                key = f"residual.{i}.{place}"
                inner = convolve(relu(inner), state[f"{key}.weight"], state[f"{key}.bias"])
            x = x + inner
        parts = []
        for i, rate in enumerate((None, 1, 6, 12, 18)):
            weight, bias = state[f"pyramid.{i}.weight"], state[f"pyramid.{i}.bias"]
            source = np.broadcast_to(x.mean((1, 2), keepdims=True), x.shape) if rate is None else x
            parts.append(relu(convolve(source, weight, bias, rate or 1)))
        y = relu(convolve(np.concatenate(parts), state["merge.0.weight"], state["merge.0.bias"]))
        y = convolve(y, state["classify.weight"], state["classify.bias"])
        passes.append(y[1] - y[0])
        history = np.exp(y) / np.exp(y).sum(0)
    return passes


def test_the_head_is_the_one_of_numpy():
    method = build_method("rpmm", settings={"width": 4})
    network = method.start((5,), seed=1).double().eval()
    state = {key: value.numpy() for key, value in network.state_dict().items()}
    *support, query = make_shots(3, (4, 5), dtype=torch.float64)

    def layer5(features):
        x = convolve(features.numpy(), state["layer5.0.weight"], state["layer5.0.bias"], 2)
        return torch.from_numpy(relu(x / np.sqrt(1 + 1e-5)))  # batch norm as it starts

    weights = episode_of(support, query).support.weights("bilinear").double()
    shots, cells = torch.stack([layer5(s.features) for s in support]), layer5(query.features)
    prototypes, matched = [], []
    for parts in (1, 3, 6):
        both = [mixture(side, parts, 0) for side in sides_of(shots, weights)]
        foreground = match(cells, both).sigmoid()
        prototypes.append(both[1].numpy())
        matched.append(torch.stack([1 - foreground, foreground]).numpy())
    wanted = head_in_numpy(state, cells.numpy(), prototypes, matched)
    features = torch.stack([s.features for s in support])
    out = network(features, weights, query.features)
    for found, expected in zip(out.more, wanted, strict=True):
        assert np.abs(found.detach().numpy() - expected).max() < 1e-9
    mean = np.mean([1 / (1 + np.exp(-x)) for x in wanted], 0)  # two shots: the mean of the passes
    assert np.abs(out.logits.sigmoid().detach().numpy() - mean).max() < 1e-9
    single = network(features[:1], weights[:1], query.features)
    assert len(single.more) == 2
    network.train()
    assert len(network(features, weights, query.features).more) == 2


def test_the_loss_is_the_sum_of_the_passes():
    *support, query = make_shots(2, (4, 5))
    method = build_method("rpmm", settings={"width": 4})
    network = method.start((5,)).eval()
    out = network(support[0].features[None], episode_of(support, query).support.weights("bilinear"), query.features)
    total = 0
    for logits in (*out.more, out.logits):
        full = F.interpolate(logits[None, None], query.grid.pixels, mode="bilinear", align_corners=False)[0, 0]
        known = query.mask != 255
        total += F.binary_cross_entropy_with_logits(full[known], query.mask[known].float())
    assert method.loss(support, query).item() == pytest.approx(total.item(), rel=1e-5)


def test_gradient_and_one_episode():
    names = ["steer.weight", "duplex.0.weight", "residual.0.1.weight", "pyramid.3.weight"]
    check_gradient(build_method("rpmm", settings={"width": 4}), names)
    torch.manual_seed(0)
    assert overfit(build_method("rpmm", settings={"width": 16}), 60, 0.01) > 0.95
