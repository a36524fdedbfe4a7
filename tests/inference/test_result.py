"""The classifier that inference returns, on other features."""

import pytest
import torch

from repri.inference import infer
from repri.runtime.errors import RepriError

from .make import config_of, make_tasks


def test_logits_of_other_images_and_resolutions():
    support, masks, query, _ = make_tasks(tasks=3, shots=2)
    for preset in ("clean", "paper"):
        out = infer(support, masks, query, config_of(preset), backend="torch")
        torch.testing.assert_close(torch.sigmoid(out.logits(query)), out.probability)
        assert out.logits(support).shape == (3, 2, 9, 11)
        larger = torch.nn.functional.interpolate(query, scale_factor=2)
        torch.testing.assert_close(out.logits(larger)[:, ::2, ::2], out.logits(query))
    single = infer(support[:1], masks[:1], query[:1])
    torch.testing.assert_close(single.logits(query[0]), single.logits(query[:1])[0])
    with pytest.raises(RepriError, match=r"features must be a tensor .* with C = 24, got \[3, 5, 9, 11\]"):
        out.logits(query[:, :5])
    with pytest.raises(RepriError, match="features hold 2 tasks and the classifier 3"):
        out.logits(query[:2])
    with pytest.raises(RepriError, match=r"features hold NaN or Inf .*: check the feature extractor"):
        out.logits(query * float("nan"))
    with pytest.raises(RepriError, match=r"features \[C, h, w\] fit one task and the classifier holds 3"):
        out.logits(query[0])


def test_precision_of_the_result():
    support, masks, query, _ = make_tasks()
    out = infer(support, masks, query, config_of("paper"), history=True)  # computed in float64
    assert out.prototype.dtype == out.history.loss.dtype == torch.float32
    assert infer(support.double(), masks, query).probability.dtype == torch.float64
    assert out.to_dtype(torch.float32) is out
