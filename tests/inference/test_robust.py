"""Hard input gets a finite answer, with the compiled kernel and without it."""

import pytest
import torch

from repri.inference import InferenceConfig, infer, native_status, perturbed

from .make import config_of, make_tasks


@pytest.mark.parametrize("backend", ["torch", "native"])
@pytest.mark.parametrize("preset", ["clean", "paper", "official", "oracle", "official-oracle"])
def test_extremes_stay_finite(preset, backend):
    if backend == "native" and not native_status()[0]:
        pytest.skip(native_status()[1])
    support, masks, query, _ = make_tasks(tasks=1, shots=1, noise=0.05)
    cfg = config_of(preset)
    cfg = cfg.replace(steps=min(cfg.steps, 60))
    all_foreground = torch.where(masks == 255, masks, 1)
    cases = [
        (masks, cfg.replace(temperature=2000.0), None),  # saturated probabilities
        (masks, cfg.replace(lr=10.0), None),
        (all_foreground, cfg, None),
        (masks, cfg, 1e-12),
        (masks, cfg, 1 - 1e-7),
        (masks, cfg, perturbed(torch.tensor([0.6]), 5.0)),
    ]
    if cfg.needs_proportion:
        cases = [(m, c, pi or 0.3) if not isinstance(pi, torch.Tensor) else (m, c, pi) for m, c, pi in cases]
    for m, c, pi in cases:
        out = infer(support, m, query, c, proportion=pi, history=True, backend=backend)
        for name in ("prototype", "bias", "proportion", "probability"):
            assert getattr(out, name).isfinite().all(), (name, c, pi)
        assert all(x.isfinite().all() for x in out.history)
        assert ((out.probability >= 0) & (out.probability <= 1)).all()
    pi = 0.3 if cfg.needs_proportion else None
    zeros = infer(support, masks, torch.zeros_like(query), cfg, proportion=pi, backend=backend)
    assert zeros.probability.isfinite().all()


@pytest.mark.skipif(not native_status()[0], reason="the compiled kernel is not available")
def test_torch_defaults_do_not_reach_the_kernel():
    support, masks, query, _ = make_tasks(channels=64)
    expected = infer(support, masks, query, backend="native").probability
    before = torch.get_default_dtype()
    try:
        for dtype in (torch.float64, torch.float16):
            torch.set_default_dtype(dtype)
            assert torch.equal(infer(support, masks, query, backend="native").probability, expected)
    finally:
        torch.set_default_dtype(before)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        for backend in ("torch", "native"):
            out = infer(support, masks, query, backend=backend)
            torch.testing.assert_close(out.probability, expected, atol=1e-4, rtol=0)
            torch.testing.assert_close(torch.sigmoid(out.logits(query)), out.probability, atol=1e-5, rtol=0)


@pytest.mark.skipif(not native_status()[0], reason="the compiled kernel is not available")
def test_losses_of_saturated_classifiers():
    support, masks, query, _ = make_tasks(shots=2, noise=0.05)
    for epsilon in (0.0, 1e-10):
        cfg = InferenceConfig.preset("clean").replace(temperature=2000.0, steps=1, epsilon=epsilon)
        a, b = (infer(support, masks, query, cfg, history=True, backend=x).history for x in ("torch", "native"))
        torch.testing.assert_close(a.ce, b.ce, rtol=1e-3, atol=1e-3)
        torch.testing.assert_close(a.entropy, b.entropy, rtol=1e-3, atol=1e-4)
