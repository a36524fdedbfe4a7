"""The classifier before the first step."""

import pytest
import torch

from repri.inference import InferenceConfig, infer

from .make import make_tasks


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


@pytest.mark.parametrize("background", ["support", "both", "known"])
def test_a_support_without_background(background):
    """All object: the query's own mean stands in, or what is known."""
    support, _, query, _ = make_tasks()
    masks = torch.ones(1, 1, 36, 44)
    cfg = InferenceConfig.preset("clean").replace(background=background)
    out = infer(support, masks, query, cfg, background=query[0, :, 0, 0])
    assert out.probability.isfinite().all()
    assert out.background.isfinite().all()
