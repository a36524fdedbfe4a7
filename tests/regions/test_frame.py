"""The way to a square input and back."""

import numpy as np
import pytest
import torch

from repri.regions.frame import Frame


@pytest.mark.parametrize("fit", ["pad", "squash"])
def test_a_map_comes_back_to_its_place(fit):
    frame = Frame(fit, 64, 16)
    p = torch.zeros(1, 1, 30, 60)
    p[..., 10:20, 40:] = 1
    back = frame.restore(frame.fill(p, (30, 60)), (30, 60))
    again = torch.nn.functional.interpolate(back, (30, 60), mode="bilinear")[0, 0] > 0.5
    assert (again == p[0, 0].bool()).float().mean() > 0.95


def test_padding_is_zero_after_normalising():
    values = Frame("pad", 32).pixels(np.full((10, 20, 3), 255, np.uint8), (0.5,) * 3, (0.5,) * 3)
    assert values.shape == (1, 3, 32, 32)
    assert (values[..., :16, :] == 1).all()
    assert (values[..., 16:, :] == 0).all()
