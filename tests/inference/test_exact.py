"""`official` against the authors' outputs; `paper`, `original` and `clean` against autograd in float64."""

import numpy as np
import pytest
import torch

from repri.inference import InferenceConfig, infer, native_status, perturbed, true_proportion

from .make import config_of, make_tasks
from .reference import reference_infer

official, official_oracle = InferenceConfig.preset("official"), config_of("official-oracle")
GOLDEN = {
    "main": official,
    "ce": config_of("official-ce"),
    "ce_h": config_of("official-ce_h"),
    "oracle": official_oracle,
    "oracle_noise+0.3": official_oracle,
    "t_pi20": official.replace(t_pi=20),
}
BACKENDS = ["torch", "native"]


def need(backend):
    if backend == "native" and not native_status()[0]:
        pytest.skip(native_status()[1])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("shots", [1, 5])
@pytest.mark.parametrize("setting", GOLDEN)
def test_official_reproduces_the_authors_outputs(test_data, setting, shots, backend):
    need(backend)
    arrays = np.load(test_data / "golden" / "official_repri.npz")
    data = {key: torch.from_numpy(arrays[key]) for key in arrays.files if key.startswith(f"k{shots}/")}
    support, masks, query, truth = (data[f"k{shots}/{name}"] for name in ("fs", "gs", "fq", "gq"))
    pi = None
    if "oracle" in setting:
        pi = true_proportion(truth[:, 0], query.shape[-2:])
        pi = perturbed(pi, 0.3) if "noise" in setting else pi
    out = infer(support, masks, query[:, 0], GOLDEN[setting], truth[:, 0] != 255, pi, backend=backend)

    expected = {name: data[f"k{shots}/{setting}/{name}"] for name in ("w", "b", "pi", "p")}
    torch.testing.assert_close(out.initial_probability, data[f"k{shots}/p0"], atol=1e-4, rtol=0)
    torch.testing.assert_close(out.probability, expected["p"], atol=1e-4, rtol=0)
    torch.testing.assert_close(out.proportion, expected["pi"][:, 1], atol=1e-4, rtol=0)
    for found, wanted in ((out.prototype, expected["w"]), (out.bias, expected["b"])):
        assert (found - wanted).norm() <= 1e-3 * wanted.norm()
        torch.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-3 * wanted.abs().max().item())


@pytest.mark.parametrize("protocol", ["paper", "original"])
@pytest.mark.parametrize("shots", [1, 3])
@pytest.mark.parametrize("known", [False, True], ids=["joint", "oracle"])
def test_float64_equals_autograd(protocol, shots, known):
    support, masks, query, truth = make_tasks(tasks=2, shots=shots, dtype=torch.float64)
    valid = torch.ones_like(truth, dtype=torch.bool)
    valid[:, -8:] = False  # bottom padding
    pi = true_proportion(truth, query.shape[-2:]) if known else None
    out = infer(support, masks, query, config_of(protocol), valid, pi, history=True)
    for i in range(2):
        expected = reference_infer(
            *(support[i], masks[i], query[i]),
            paper=protocol == "paper",
            valid=valid[i],
            proportion=None if pi is None else pi[i].item(),
        )
        for name in ("prototype", "bias", "proportion", "probability", "initial_probability"):
            torch.testing.assert_close(getattr(out, name)[i], expected[name], atol=1e-8, rtol=1e-8)
        steps = torch.stack([out.history.ce, out.history.entropy, out.history.kl, out.history.loss], -1)[:, i]
        torch.testing.assert_close(steps, expected["losses"], atol=1e-8, rtol=1e-8)


@pytest.mark.parametrize("protocol", ["paper", "original"])
def test_every_t_pi_equals_autograd(protocol):
    support, masks, query, _ = make_tasks(dtype=torch.float64)
    for t_pi in (1, 2, 25, 49, 50):
        out = infer(support, masks, query, config_of(protocol).replace(t_pi=t_pi))
        expected = reference_infer(support[0], masks[0], query[0], paper=protocol == "paper", t_pi=t_pi)
        torch.testing.assert_close(out.probability[0], expected["probability"], atol=1e-8, rtol=0)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("preset", ["clean", "official", "paper", "oracle", "ce", "ce_h"])
def test_float32_backends_follow_float64(preset, backend):
    need(backend)
    support, masks, query, truth = make_tasks(tasks=2, shots=2, channels=40, size=(17, 13))
    cfg = config_of(preset)
    pi = true_proportion(truth, query.shape[-2:]) if preset == "oracle" else None
    out = infer(support, masks, query, cfg, truth != 255, pi, backend=backend)
    exact = infer(support.double(), masks, query.double(), cfg, truth != 255, pi)
    torch.testing.assert_close(out.probability.double(), exact.probability, atol=2e-4, rtol=0)
    torch.testing.assert_close(out.proportion.double(), exact.proportion, atol=1e-5, rtol=0)


@pytest.mark.parametrize("protocol", ["paper", "clean", "official"])
@pytest.mark.parametrize("background", [False, True])
def test_closed_form_gradient_passes_gradcheck(protocol, background):
    """One step with a tiny lr reveals the gradient; gradcheck compares it with finite differences."""
    from repri.inference.backends.passes import Classifier, TorchPasses
    from repri.inference.problem import build_problem

    support, masks, query, truth = make_tasks(shots=2, channels=6, size=(6, 7), dtype=torch.float64)
    problem = build_problem(support, masks, query, truth != 255, None)
    cfg = config_of(protocol).replace(lr=1.0)
    passes = TorchPasses(problem, cfg)
    pi = torch.tensor([[0.8, 0.2]], dtype=torch.float64)
    lambda_h, lambda_kl = torch.tensor([0.5]).double(), torch.tensor([1.5]).double()

    class Objective(torch.autograd.Function):
        @staticmethod
        def forward(ctx, w, b, v):
            after_w, after_b, after_v = w.clone(), b.clone(), v.clone()
            used = after_v if background else None
            found = passes.step(Classifier(after_w, after_b, used), pi, lambda_h, lambda_kl, False, True)
            ctx.save_for_backward(w - after_w, b - after_b, v - after_v)
            kl = (found.marginal * (found.marginal / pi).log()).sum(1)
            return found.losses[:, 0] + lambda_h * found.losses[:, 1] + lambda_kl * kl

        @staticmethod
        def backward(ctx, grad):
            grad_w, grad_b, grad_v = ctx.saved_tensors
            return grad[:, None] * grad_w, grad * grad_b, grad[:, None] * grad_v

    w = passes.foreground_sum().clone().requires_grad_()
    v = passes.background_sum().clone().requires_grad_()
    start = (0.03 if protocol == "paper" else 0.5) if background else 0.3 if protocol == "paper" else 6.0
    b = torch.full((1,), start, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(Objective.apply, (w, b, v), eps=1e-6, atol=1e-7)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("background", ["support", "both", "known"])
def test_a_background_prototype_equals_autograd(backend, background):
    """τ·[cos(z, w) − cos(z, v)] − b under the same objective, by autograd in float64."""
    import torch.nn.functional as F

    need(backend)
    support, masks, query, truth = make_tasks(shots=2, channels=40, size=(17, 13))
    cfg = InferenceConfig.preset("clean").replace(background=background)
    if background == "known":
        cfg = cfg.replace(start_bias=0.3, shots_bias=1.2)
    known = torch.randn(40, generator=torch.Generator().manual_seed(1))
    out = infer(support, masks, query, cfg, truth != 255, background=known, backend=backend)

    z_s, z_q = (F.normalize(x.double(), dim=1).movedim(1, -1).flatten(0, -2) for x in (support[0], query))
    y = F.interpolate(masks.double(), (17, 13), mode="nearest")[0].flatten()
    z_s, y = z_s[y != 255], y[y != 255]
    valid = F.interpolate((truth != 255)[:, None].double(), (17, 13), mode="nearest").flatten()
    valid = valid / valid.sum()
    w, v = (z_s * y[:, None]).sum(0) / y.sum(), (z_s * (1 - y)[:, None]).sum(0) / (1 - y).sum()

    def logits(z, w, v, b):
        return 20 * (z @ F.normalize(w, dim=0) - z @ F.normalize(v, dim=0)) - b

    if background == "both":
        rest = torch.sigmoid(-logits(z_q, w, v, 0)) * valid
        v = (v + (z_q * rest[:, None]).sum(0) / rest.sum()) / 2
    if background == "known":  # one direction more beside those of two shots
        v = v.norm() * F.normalize(2 * F.normalize(v, dim=0) + F.normalize(known.double(), dim=0), dim=0)
    b = torch.tensor(0.9 if background == "known" else 0, dtype=torch.float64)  # 1 − 1/K is a half
    pi = (torch.sigmoid(logits(z_q, w, v, b)) * valid).sum()
    weight_h = weight_kl = 5 / 2
    for t in range(50):
        w, v, b = (x.detach().requires_grad_() for x in (w, v, b))
        l_s, l_q = logits(z_s, w, v, b), logits(z_q, w, v, b)
        p = torch.sigmoid(l_q)
        marginal = (p * valid).sum()
        if t == 9:
            pi, weight_kl = marginal.detach(), weight_kl + 1
        loss = F.binary_cross_entropy_with_logits(l_s, y)
        loss = loss + weight_h * (valid * F.binary_cross_entropy_with_logits(l_q, p, reduction="none")).sum()
        loss = loss + weight_kl * (
            marginal * (marginal / pi).log() + (1 - marginal) * ((1 - marginal) / (1 - pi)).log()
        )
        gradients = torch.autograd.grad(loss, (w, v, b))
        w, v, b = (x.detach() - 0.005 * g for x, g in zip((w, v, b), gradients, strict=True))
    expected = torch.sigmoid(logits(z_q, w, v, b)).reshape(17, 13)
    torch.testing.assert_close(out.probability[0].double(), expected, atol=2e-4, rtol=0)
    torch.testing.assert_close(out.proportion[0].double(), pi, atol=1e-5, rtol=0)
    torch.testing.assert_close(out.background[0].double(), v, atol=1e-4, rtol=1e-3)
    torch.testing.assert_close(torch.sigmoid(out.logits(query))[0].double(), expected, atol=2e-4, rtol=0)
