"""PFENet's prior by loops, and its head against numpy."""

import numpy as np
import pytest
import torch

from repri.methods import build_method
from repri.methods.pfenet import prior_of
from repri.runtime.errors import RepriError

from .make import check_gradient, copies, episode_of, make_shots, overfit
from .reference import adaptive_pool, align_corners, convolve, relu


def test_number_of_parameters():
    with torch.device("meta"):
        networks = [build_method("pfenet").build(widths) for widths in ((512, 1024, 2048), (384,))]
        small = build_method("pfenet", settings={"width": 128}).build((384, 384))
    counts = [sum(p.numel() for p in network.parameters()) for network in (*networks, small)]
    assert counts[0] == 10_817_034
    assert counts[1] == pytest.approx(10.2e6, rel=0.01)
    assert counts[2] == pytest.approx(2.6e6, rel=0.02)


def prior_by_loops(support, mask, query):
    result = np.zeros(query.shape[1:])
    for shot, weights in zip(support, mask, strict=True):
        best = np.full(query.shape[1:], -np.inf)
        for place in np.ndindex(*query.shape[1:]):
            q = query[(slice(None), *place)]
            for cell in np.ndindex(*weights.shape):
                s = shot[(slice(None), *cell)] * weights[cell]
                best[place] = max(best[place], s @ q / (np.linalg.norm(s) * np.linalg.norm(q) + 1e-7))
        result += (best - best.min()) / (best.max() - best.min() + 1e-7) / len(support)
    return result


def test_the_prior_is_the_one_of_loops():
    g = torch.Generator().manual_seed(0)
    support, query = torch.randn(2, 4, 3, 4, generator=g), torch.randn(4, 2, 5, generator=g)
    mask = torch.rand(2, 3, 4, generator=g) * (torch.rand(2, 3, 4, generator=g) > 0.5)
    found = prior_of(support, mask, query)
    assert np.abs(found.numpy() - prior_by_loops(*(x.double().numpy() for x in (support, mask, query)))).max() < 1e-5
    one = prior_of(support[:1], mask[:1], query)
    assert one.min() == 0
    assert one.max() == pytest.approx(1, abs=1e-5)
    assert torch.allclose(prior_of(support[:1] * 9, mask[:1], query / 3), one, atol=1e-5)
    assert torch.allclose(prior_of(support[:1], mask[:1] * 0.3, query), one, atol=1e-5)


def head_in_numpy(state, query, vector, prior):
    """Logits [h, w], and those of the scales."""
    size, maps, inner = query.shape[1:], [], []

    def pair(x, key):
        return relu(convolve(relu(convolve(x, state[f"{key}.0.weight"])), state[f"{key}.2.weight"]))

    def classify(x, key):
        y = relu(convolve(x, state[f"{key}.0.weight"]))
        y = convolve(y, state[f"{key}.3.weight"], state[f"{key}.3.bias"])
        return y[1] - y[0]

    for i, scale in enumerate((1, 0.5, 0.25, 0.125)):
        bins = tuple(max(1, int(side * scale)) for side in size)
        tiled = np.broadcast_to(vector[:, None, None], (len(vector), *bins))
        x = np.concatenate([adaptive_pool(query, bins), tiled, align_corners(prior, bins)[None]])
        x = relu(convolve(x, state[f"join.{i}.0.weight"]))
        if i:
            before = align_corners(maps[-1], bins)
            x = x + relu(convolve(np.concatenate([x, before]), state[f"alpha.{i - 1}.0.weight"]))
        x = x + pair(x, f"beta.{i}")
        inner.append(classify(x, f"inner.{i}"))
        maps.append(align_corners(x, size))
    y = relu(convolve(np.concatenate(maps), state["merge.0.weight"]))
    return classify(y + pair(y, "refine"), "classify"), inner


def test_the_head_is_the_one_of_numpy():
    method = build_method("pfenet", settings={"width": 3})
    network = method.start((2, 3, 4), seed=1).double().eval()
    state = {key: value.numpy() for key, value in network.state_dict().items()}
    *support, query = make_shots(3, (8, 9), 9, dtype=torch.float64)
    weights = episode_of(support, query).support.weights("bilinear").double()
    vector = 0
    for shot, (_, mask) in zip(support, weights.numpy(), strict=True):
        reduced = relu(convolve(shot.features[:5].numpy(), state["reduce_support.0.weight"]))
        vector = vector + (reduced * mask).sum((1, 2)) / (mask.sum() + 5e-4) / 2
    high = np.stack([s.features[5:].numpy() for s in support])
    prior = prior_by_loops(high, weights[:, 1].numpy(), query.features[5:].numpy())
    reduced = relu(convolve(query.features[:5].numpy(), state["reduce_query.0.weight"]))
    wanted, inner = head_in_numpy(state, reduced, vector, prior)
    out = network(torch.stack([s.features for s in support]), weights, query.features)
    assert np.abs(out.logits.detach().numpy() - wanted).max() < 1e-6
    for found, expected in zip(out.more, inner, strict=True):
        assert found.shape == expected.shape
        assert np.abs(found.detach().numpy() - expected).max() < 1e-6


def test_without_alpha_the_scales_are_independent():
    network = build_method("pfenet", settings={"width": 3}).start((4,)).eval()
    for block in network.alpha:
        block[0].weight.data.zero_()
    *support, query = make_shots(2, (8, 8), 4)
    inputs = (support[0].features[None], episode_of(support, query).support.weights("bilinear"), query.features)
    before = [x.detach().clone() for x in network(*inputs).more]
    network.join[0][0].weight.data.zero_()
    after = network(*inputs).more
    assert not torch.equal(before[0], after[0])
    assert all(torch.equal(a, b) for a, b in zip(before[1:], after[1:], strict=True))


def test_copies_gradient_and_one_episode():
    method = build_method("pfenet", settings={"width": 4})
    method.start((2, 3))
    assert copies(method, (2, 3))
    names = ["join.1.0.weight", "alpha.0.0.weight", "inner.2.0.weight", "reduce_support.0.weight", "classify.3.weight"]
    check_gradient(build_method("pfenet", settings={"width": 4}), names, (2, 3))
    torch.manual_seed(0)
    assert overfit(build_method("pfenet", settings={"width": 16}), 60, 0.01, widths=(4, 4)) > 0.95


def test_layers_that_are_not_there():
    episode = episode_of(make_shots(1), make_shots(1)[0])
    with pytest.raises(RepriError, match="pfenet has to be trained before it can be used"):
        build_method("pfenet").predict(episode)
    with pytest.raises(RepriError, match=r"layer 3 \(high\), and the extractor gives 2 layers of 4, 6 channels"):
        build_method("pfenet", settings={"high": 3}).start((4, 6))
    with pytest.raises(RepriError, match="mid must be positions of layers"):
        build_method("pfenet", settings={"mid": "last"})
