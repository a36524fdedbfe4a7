"""What must hold whatever the numbers are."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from repri.inference import InferenceConfig, infer, native_status

from .make import config_of, make_tasks

NATIVE = native_status()[0]
backends = st.sampled_from(["torch", "native"] if NATIVE else ["torch"])
presets = st.sampled_from(["clean", "paper", "official", "ce", "ce_h"])
seeds = st.integers(0, 10_000)
STEPS = 12
"""Enough to re-estimate the proportion; what holds for these holds for more."""


def run(support, masks, query, preset="clean", backend="torch", **kwargs):
    return infer(support, masks, query, config_of(preset).replace(steps=STEPS), backend=backend, **kwargs)


def assert_same(a, b, atol=1e-5):
    for name in ("probability", "initial_probability", "proportion"):
        torch.testing.assert_close(getattr(a, name), getattr(b, name), atol=atol, rtol=0)


def task(result, i):
    """Task i of a result, as a result of one task."""
    import dataclasses

    names = ("prototype", "bias", "proportion", "probability", "initial_probability", "area_weighted")
    return dataclasses.replace(result, **{name: getattr(result, name)[i : i + 1] for name in names})


@given(seeds, st.integers(1, 4), st.integers(1, 3), presets, backends)
def test_a_batch_equals_its_tasks_one_by_one(seed, tasks, shots, preset, backend):
    support, masks, query, truth = make_tasks(tasks, shots, seed=seed)
    valid = truth != 255
    whole = run(support, masks, query, preset, backend, query_valid=valid)
    for i in range(tasks):
        alone = (x[i : i + 1] for x in (support, masks, query))
        assert_same(task(whole, i), run(*alone, preset, backend, query_valid=valid[i : i + 1]))


@given(seeds, st.lists(st.integers(1, 4), min_size=2, max_size=4), backends)
def test_ragged_shots_equal_tasks_one_by_one(seed, shots, backend):
    parts = [make_tasks(1, k, seed=seed + i) for i, k in enumerate(shots)]
    supports, masks = [p[0][0] for p in parts], [p[1][0] for p in parts]
    query = torch.cat([p[2] for p in parts])
    whole = run(supports, masks, query, backend=backend)
    most = max(shots)
    padded = torch.zeros(len(shots), most, *supports[0].shape[1:])
    unlabelled = torch.full((len(shots), most, *masks[0].shape[1:]), 255, dtype=torch.uint8)
    for i, k in enumerate(shots):
        padded[i, :k], unlabelled[i, :k] = supports[i], masks[i]
        assert_same(task(whole, i), run(parts[i][0], parts[i][1], query[i : i + 1], backend=backend))
    assert_same(whole, run(padded, unlabelled, query, backend=backend))


@given(seeds, st.integers(2, 20), presets, backends)
def test_a_shared_support_equals_its_copies(seed, tasks, preset, backend):
    support, masks, _, _ = make_tasks(1, 2, seed=seed)
    query = make_tasks(tasks, 1, seed=seed + 1)[2]
    copies = run(support.repeat(tasks, 1, 1, 1, 1), masks.repeat(tasks, 1, 1, 1), query, preset, backend)
    assert_same(run(support, masks, query, preset, backend), copies)
    expanded = (support.expand(tasks, -1, -1, -1, -1), masks.expand(tasks, -1, -1, -1))
    assert_same(run(*expanded, query, preset, backend), copies)


@given(seeds, presets, backends)
def test_shots_and_pixels_permute_freely(seed, preset, backend):
    support, masks, query, _ = make_tasks(1, 3, seed=seed, scale=1)
    g = torch.Generator().manual_seed(seed)
    base = run(support, masks, query, preset, backend)
    order = torch.randperm(3, generator=g)
    assert_same(base, run(support[:, order], masks[:, order], query, preset, backend))

    h, w = query.shape[-2:]
    pixels = torch.randperm(h * w, generator=g)

    def shuffle(x):
        return x.flatten(-2)[..., pixels].unflatten(-1, (h, w))

    moved = run(shuffle(support), shuffle(masks), shuffle(query), preset, backend)
    torch.testing.assert_close(moved.probability, shuffle(base.probability), atol=1e-5, rtol=0)


@given(seeds, st.floats(-6, 6), st.floats(-6, 6), presets, backends)
def test_features_scale_freely(seed, a, b, preset, backend):
    """Cosines see no length: not of the support, not of the query."""
    support, masks, query, _ = make_tasks(1, 2, seed=seed)
    base = run(support, masks, query, preset, backend)
    assert_same(base, run(support * 10**a, masks, query * 10**b, preset, backend), atol=2e-5)


@given(seeds, st.sampled_from(["clean", "paper"]), backends)
def test_invalid_pixels_change_nothing(seed, preset, backend):
    support, masks, query, truth = make_tasks(2, 2, seed=seed)
    valid = torch.ones_like(truth, dtype=torch.bool)
    valid[:, 20:] = False
    masks[:, :, 20:] = 255
    junk_support, junk_query = support.clone(), query.clone()
    junk_support[..., 5:, :] = torch.randn_like(junk_support[..., 5:, :]) * 100
    junk_query[..., 5:, :] = torch.randn_like(junk_query[..., 5:, :]) * 100
    a = run(support, masks, query, preset, backend, query_valid=valid)
    b = run(junk_support, masks, junk_query, preset, backend, query_valid=valid)
    torch.testing.assert_close(a.probability[:, :5], b.probability[:, :5], atol=1e-5, rtol=0)
    torch.testing.assert_close(a.proportion, b.proportion, atol=1e-5, rtol=0)
    # and the padding itself may be absent
    cropped = run(support[..., :5, :], masks[:, :, :20], query[:, :, :5], preset, backend)
    torch.testing.assert_close(a.probability[:, :5], cropped.probability, atol=1e-5, rtol=0)


@given(seeds, presets, backends)
def test_threads_do_not_matter(seed, preset, backend):
    support, masks, query, _ = make_tasks(2, 3, channels=48, size=(23, 21), seed=seed)
    results = []
    before = torch.get_num_threads()
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            results.append(run(support, masks, query, preset, backend))
    finally:
        torch.set_num_threads(before)
    assert_same(*results, atol=1e-6 if backend == "native" else 1e-5)


@given(seeds, st.integers(5, 70), st.sampled_from([torch.float16, torch.bfloat16, torch.float32]), st.booleans())
@pytest.mark.skipif(not NATIVE, reason="the compiled kernel is not available")
def test_native_takes_any_layout(seed, channels, dtype, channels_last):
    support, masks, query, _ = make_tasks(2, 2, channels=channels, seed=seed, dtype=dtype)
    if channels_last:
        support = support.permute(0, 1, 3, 4, 2).contiguous().permute(0, 1, 4, 2, 3)
        query = query.contiguous(memory_format=torch.channels_last)
    assert_same(run(support, masks, query, backend="native"), run(support, masks, query), atol=2e-4)
    few = InferenceConfig.preset("clean").replace(steps=2)
    for thin in (lambda x: x[..., :1], lambda x: x[..., :1, :], lambda x: x[..., :1].mT.contiguous().mT):
        one = (thin(support), torch.ones(2, 2, 4, 4), thin(query), few)
        assert_same(infer(*one, backend="native"), infer(*one, backend="torch"), atol=2e-4)
    crop = (support[..., 1:-1], masks[..., 4:-4], query[..., 1:-1])  # strided in both directions
    assert_same(run(*crop, backend="native"), run(*crop), atol=2e-4)
