"""The F-measure of borders."""

import torch

from repri.evaluation.borders import boundary_f, outlined


def square(top, side, size=200):
    mask = torch.zeros(size, size, dtype=torch.bool)
    mask[top : top + side, top : top + side] = True
    return mask


def test_borders_match_within_a_distance_that_grows_with_the_image():
    truth = square(50, 80)
    assert boundary_f(truth, truth) == 1
    assert boundary_f(square(51, 80), truth) == 1  # 2 pixels are near on an image of 200
    assert boundary_f(square(60, 80), truth) < 0.2


def test_half_of_a_border():
    truth, half = square(50, 80), square(50, 80)
    half[90:] = False
    value = boundary_f(half, truth)
    assert 0.5 < value < 0.9


def test_empty_masks():
    nothing = torch.zeros(20, 20, dtype=torch.bool)
    assert boundary_f(nothing, nothing) == 1
    assert boundary_f(square(2, 5, 20), nothing) == 0


def test_the_band_without_labels_is_divided():
    mask = torch.zeros(40, 40, dtype=torch.uint8)
    mask[10:30, 10:30] = 255
    mask[15:25, 15:25] = 1
    found = outlined(mask)
    assert found[13:27, 13:27].all()
    assert found.sum() == 14 * 14
