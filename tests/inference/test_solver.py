"""Steps, histories, soft masks, known proportions."""

import pytest
import torch

from repri.inference import InferenceConfig, infer, perturbed, true_proportion
from repri.runtime.errors import RepriError

from .make import config_of, make_tasks


def test_several_proportion_updates():
    support, masks, query, _ = make_tasks(dtype=torch.float64)
    cfg = InferenceConfig.preset("original").replace(t_pi=(5, 10, 30))
    out = infer(support, masks, query, cfg, history=True)
    used = out.history.proportion[:, 0]
    assert [t for t in range(1, 50) if used[t] != used[t - 1]] == [4, 9, 29]
    assert out.proportion[0] == out.history.marginal[29, 0]
    weights = (out.history.loss - out.history.ce - out.history.entropy)[:, 0] / out.history.kl[:, 0]
    torch.testing.assert_close(weights[[2, 3, 7, 40]].round(decimals=6), torch.tensor([1.0, 1.0, 2.0, 2.0]).double())


def test_callback_sees_every_step():
    support, masks, query, _ = make_tasks()
    seen = []
    out = infer(support, masks, query, history=lambda t, step: seen.append((t, step)))
    assert [t for t, _ in seen] == list(range(50))
    torch.testing.assert_close(torch.stack([s.prototype for _, s in seen]), out.history.prototype)
    assert out.history.loss[-1] < out.history.loss[10]


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


def test_one_tiny_task_beside_others():
    support, masks, query, _ = make_tasks(tasks=2)
    support[0] *= 1e-25
    alone = infer(support[:1], masks[:1], query[:1], backend="torch")
    together = infer(support, masks, query, backend="torch")
    torch.testing.assert_close(alone.probability, together.probability[:1])


def test_the_paper_preset_does_not_depend_on_the_precision_of_the_features():
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


def test_perturbed():
    torch.testing.assert_close(perturbed([0.2, 0.9], 0.5), torch.tensor([0.3, 1.0]))
    assert 0 < perturbed(torch.tensor(0.9).double(), 0.5).float() < 1
    assert 0 < perturbed(0.3, -2.0) < 1
    with pytest.raises(RepriError, match="delta must be finite, got nan"):
        perturbed(0.3, float("nan"))
