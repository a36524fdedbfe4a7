"""Bad input gets one sentence; hard input gets a finite answer."""

import os
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F

from repri.inference import InferenceConfig, infer, native_status, perturbed, true_proportion

from .make import config_of, make_tasks


def tasks(**kwargs):
    return dict(zip(("support", "support_masks", "query"), make_tasks(tasks=2, shots=2, **kwargs), strict=False))


def edit(name, change):
    def apply(t):
        t[name] = change(t[name])

    return apply


def set_value(name, value, index=(0, 0, 0, 0)):
    def apply(t):
        t[name] = t[name].clone()
        t[name][index] = value

    return apply


BAD = {
    "empty foreground": (edit("support_masks", torch.zeros_like), "no foreground pixel"),
    "only unlabelled": (edit("support_masks", lambda m: torch.full_like(m, 255)), "no foreground pixel"),
    "support rank": (edit("support", lambda x: x[0]), r"support must be a tensor \[T, K, C, h, w\].*\[2, 24, 9, 11\]"),
    "mask rank": (edit("support_masks", lambda x: x[0]), r"support_masks must be a tensor \[T, K, H, W\]"),
    "query rank": (edit("query", lambda x: x[0]), r"query must be a tensor \[T, C, h, w\]"),
    "not a tensor": (edit("query", lambda x: x.numpy()), "got ndarray"),
    "channels": (edit("query", lambda x: x[:, :5]), "support has 24 channels and query 5"),
    "tasks": (edit("query", lambda x: x[[0, 1, 1]]), "support holds 2 tasks and query 3"),
    "mask tasks": (edit("support_masks", lambda x: x[:1]), "support has 2 tasks and support_masks 1"),
    "shots": (edit("support_masks", lambda x: x[:, :1]), "2 support images but 1 masks"),
    "no shot": (lambda t: t.update(support=t["support"][:, :0], support_masks=t["support_masks"][:, :0]), "K = 0"),
    "no task": (lambda t: t.update({k: v[:0] for k, v in t.items()}), "empty"),
    "support NaN": (set_value("support", float("nan")), "task 0: support features hold NaN or Inf at 11 cells"),
    "query Inf": (set_value("query", float("inf"), (1, 0, 0)), "task 1: query features hold NaN or Inf at 11 cells"),
    "mask value": (set_value("support_masks", 7), "the value 7: mask values must be 0, 1 or 255"),
    "soft mask value": (lambda t: t.update(support_masks=(t["support_masks"] == 1) * 1.5), "the value 1.5"),
    "mask NaN": (lambda t: t.update(support_masks=t["support_masks"] * float("nan")), "the value nan"),
    "integer features": (edit("query", lambda x: x.long()), "must be floating point, got torch.int64"),
    "proportion 0": (lambda t: t.update(proportion=torch.tensor([0.1, 0.0])), "strictly between 0 and 1, got 0"),
    "proportion 1": (lambda t: t.update(proportion=1.0), "strictly between 0 and 1, got 1"),
    "proportion NaN": (lambda t: t.update(proportion=[0.5, float("nan")]), "got nan"),
    "proportion shape": (lambda t: t.update(proportion=torch.rand(3)), r"\[2\], got shape \[3\]"),
    "proportion type": (lambda t: t.update(proportion="big"), "got str"),
    "valid dtype": (lambda t: t.update(query_valid=torch.ones(2, 9, 11)), "must be bool"),
    "valid shape": (lambda t: t.update(query_valid=torch.ones(9, 11).bool()), r"\[T, H, W\] with T = 2"),
    "nothing valid": (lambda t: t.update(query_valid=torch.zeros(2, 9, 11).bool()), "task 0: query_valid leaves no"),
    "zero features": (edit("support", torch.zeros_like), "are all zero"),
    "no configuration": (lambda t: t.update(cfg="clean"), "cfg must be an InferenceConfig"),
    "oracle without π": (lambda t: t.update(cfg=config_of("oracle")), "give proportion="),
    "no background": (lambda t: t.update(cfg=InferenceConfig.preset("discriminant")), r"a tensor \[24\], got nothing"),
    "background shape": (
        lambda t: t.update(cfg=InferenceConfig.preset("discriminant"), background=torch.rand(5)),
        r"a tensor \[24\], got \[5\]",
    ),
    "background zero": (
        lambda t: t.update(cfg=InferenceConfig.preset("discriminant"), background=torch.zeros(24)),
        "background must be finite and not zero",
    ),
    "complex masks": (edit("support_masks", lambda m: m * 1j), "must hold numbers, got torch.complex64"),
    "expanded to another T": (
        lambda t: t.update(
            support=t["support"][:1].expand(3, -1, -1, -1, -1), support_masks=t["support_masks"][[0] * 3]
        ),
        "support holds 3 tasks and query 2",
    ),
    "backend": (lambda t: t.update(backend="cuda"), "'auto', 'torch' or 'native', got 'cuda'"),
}


@pytest.mark.parametrize("backend", ["torch", "native"])
@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_sentence(case, backend):
    if backend == "native" and not native_status()[0]:
        pytest.skip(native_status()[1])
    change, message = BAD[case]
    arguments = tasks() | {"backend": backend}
    change(arguments)
    with pytest.raises(ValueError, match=message) as caught:
        infer(**arguments)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tpi": 3}, "unknown inference setting 'tpi' .did you mean 't_pi'"),
        ({"steps": -1}, "steps must be an integer ≥ 0, got -1"),
        ({"steps": 2.5}, "steps must be an integer"),
        ({"temperature": 0}, "temperature must be a finite number > 0"),
        ({"lr": float("nan")}, "lr must be a finite number"),
        ({"lambda_kl": -1}, "lambda_kl must be a finite number ≥ 0"),
        ({"t_pi": 0}, "t_pi must be None, an integer ≥ 1 or several"),
        ({"epsilon": 1e-50}, "epsilon must be 0 or at least 1e-30"),
        ({"lr": 10**400}, "lr must be a finite number"),
        ({"bias_unit": "tau"}, "bias_unit must be 'logit' or 'cosine', got 'tau'"),
    ],
)
def test_bad_settings_are_named(changes, message):
    with pytest.raises(ValueError, match=message):
        InferenceConfig.preset("clean").replace(**changes)


def test_unknown_preset_names_the_nearest():
    with pytest.raises(ValueError, match=r"unknown preset 'offical' .did you mean 'official'"):
        InferenceConfig.preset("offical")


@pytest.mark.parametrize("backend", ["torch", "native"])
@pytest.mark.parametrize("preset", ["clean", "paper", "official", "oracle", "official-oracle"])
def test_extremes_stay_finite(preset, backend):
    if backend == "native" and not native_status()[0]:
        pytest.skip(native_status()[1])
    support, masks, query, _ = make_tasks(tasks=1, shots=1, noise=0.05)
    cfg = config_of(preset)
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


def test_an_object_lost_by_downsampling_is_weighted_by_area():
    support, masks, query, _ = make_tasks(tasks=2)
    masks[0] = 0
    masks[0, 0, 5, 6] = 1  # nearest takes every fourth pixel
    out = infer(support, masks, query)
    assert out.area_weighted.tolist() == [True, False]
    assert out.probability.isfinite().all()
    expected = support[0, 0, :, 1, 1]  # the one cell that holds it
    start = infer(support, masks, query, InferenceConfig.preset("clean").replace(steps=0)).prototype[0]
    torch.testing.assert_close(start, expected / expected.norm())


def test_soft_masks():
    support, masks, query, _ = make_tasks(tasks=2, shots=2, dtype=torch.float64)
    hard = infer(support, masks, query)
    torch.testing.assert_close(infer(support, masks.double(), query).probability, hard.probability)
    two_valued = masks.where(masks != 255, 0)
    as_bool = infer(support, two_valued == 1, query)
    torch.testing.assert_close(as_bool.probability, infer(support, two_valued, query).probability)
    soft = torch.where(masks == 255, 255.0, masks * 0.8 + 0.1 * (masks == 0))
    out = infer(support, soft, query)
    assert out.probability.isfinite().all()
    assert (out.probability - hard.probability).abs().max() > 1e-3


def test_labels_are_downsampled_as_torch_does():
    for height, width, h, w in (
        (417, 417, 53, 53),
        (129, 97, 17, 13),
        (30, 41, 7, 9),
        (5, 5, 9, 11),
        (313, 500, 40, 63),
    ):
        masks = torch.randint(0, 2, (2, height, width), dtype=torch.uint8)
        masks[:, :3] = 255
        expected = F.interpolate(masks[:, None].float(), size=(h, w), mode="nearest")[:, 0]
        labels = nearest_labels(masks, (h, w))
        assert torch.equal(labels.float(), expected)


def test_true_proportion():
    masks = torch.zeros(3, 8, 8, dtype=torch.uint8)
    masks[0, :4] = 1
    masks[0, :, 4:] = 255
    masks[1] = 1
    masks[2, 1, 1] = 1  # lost by nearest at 4×4
    torch.testing.assert_close(true_proportion(masks, (4, 4)), torch.tensor([0.5, 1.0, 1 / 64]))
    torch.testing.assert_close(true_proportion(masks[:, None], (4, 4))[:, 0], true_proportion(masks, (4, 4)))
    for wrong in (masks[0, 0], masks.numpy()):
        with pytest.raises(ValueError, match=r"a tensor of masks \[…, H, W\], got"):
            true_proportion(wrong, (4, 4))
    for size in ((4,), (4.5, 4), 4):
        with pytest.raises(ValueError, match=r"size must be two integers \(h, w\)"):
            true_proportion(masks, size)
    with pytest.raises(ValueError, match="mask 0 has no labelled pixel"):
        true_proportion(torch.full((1, 4, 4), 255), (2, 2))


def test_perturbed():
    torch.testing.assert_close(perturbed([0.2, 0.9], 0.5), torch.tensor([0.3, 1.0]))
    assert 0 < perturbed(torch.tensor(0.9).double(), 0.5).float() < 1
    assert 0 < perturbed(0.3, -2.0) < 1
    with pytest.raises(ValueError, match="delta must be finite"):
        perturbed(0.3, float("nan"))


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


def test_one_tiny_task_beside_others():
    support, masks, query, _ = make_tasks(tasks=2)
    support[0] *= 1e-25
    alone = infer(support[:1], masks[:1], query[:1], backend="torch")
    together = infer(support, masks, query, backend="torch")
    torch.testing.assert_close(alone.probability, together.probability[:1])


def test_the_paper_form_does_not_depend_on_the_precision_of_the_features():
    """Features that lie close together make its bias oscillate, and every rounding grows with each step."""
    support, masks, query, truth = make_tasks(channels=64, size=(16, 16), noise=0.3)
    support, query = support + 3.0, query + 3.0
    for preset in ("paper", "paper-oracle"):
        cfg = config_of(preset)
        pi = true_proportion(truth, (16, 16)) if cfg.needs_proportion else None
        single = infer(support, masks, query, cfg, proportion=pi)
        double = infer(support.double(), masks, query.double(), cfg, proportion=pi)
        torch.testing.assert_close(single.probability.double(), double.probability, atol=1e-6, rtol=0)


def test_infer_leaves_its_input_alone_and_carries_no_gradient():
    support, masks, query, _ = make_tasks()
    support.requires_grad_()
    copies = [x.detach().clone() for x in (support, masks, query)]
    out = infer(support, masks, query)
    assert not out.prototype.requires_grad
    for before, after in zip(copies, (support, masks, query), strict=True):
        assert torch.equal(before, after)


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"REPRI_NATIVE": "0"}, "False REPRI_NATIVE=0"),
        ({"PATH": "/nonexistent", "CC": ""}, "False no C compiler"),
        ({"CC": "/bin/false"}, "False building the kernel failed"),
    ],
)
def test_without_a_compiler_torch_does_the_work(tmp_path, environment, expected):
    code = (
        "import torch; from repri.inference import infer, native_status; print(*native_status());"
        "x = torch.randn(1, 1, 64, 24, 24); m = torch.zeros(1, 1, 24, 24); m[..., :9] = 1;"
        "print(infer(x, m, x[:, 0]).probability.isfinite().all().item())"
    )
    env = os.environ | {"REPRI_CACHE": str(tmp_path)} | environment
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.startswith(expected)
    assert done.stdout.endswith("True\n")
    assert list(tmp_path.iterdir()) == []  # nothing half-built is left behind


@pytest.mark.skipif(not native_status()[0], reason="the compiled kernel is not available")
def test_a_damaged_library_is_built_again(tmp_path):
    code = "from repri.inference import native_status; print(*native_status())"
    env = os.environ | {"REPRI_CACHE": str(tmp_path)}
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
        assert done.stdout.startswith("True ")
        (library,) = tmp_path.iterdir()
        library.write_bytes(b"not a library")
