"""Masks at the resolution of features."""

import pytest
import torch
import torch.nn.functional as F

from repri.inference import true_proportion
from repri.inference.labels import area_labels, has_object, nearest_labels, on_one_grid
from repri.runtime.errors import RepriError


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
        with pytest.raises(RepriError, match=r"a tensor of masks \[…, H, W\], got"):
            true_proportion(wrong, (4, 4))
    for size in ((4,), (4.5, 4), 4):
        with pytest.raises(RepriError, match=r"size must be two integers \(h, w\)"):
            true_proportion(masks, size)
    with pytest.raises(RepriError, match="Mask 0 has no labelled pixel at 2×2 cells, so its proportion is undefined"):
        true_proportion(torch.full((1, 4, 4), 255), (2, 2))


def test_area_labels_are_means_over_labelled_pixels():
    masks = torch.tensor([[[0, 1, 1, 255], [0, 1, 255, 255], [1, 1, 255, 255], [0, 0, 255, 255]]], dtype=torch.uint8)
    assert area_labels(masks, (2, 2)).tolist() == [[[0.5, 1.0], [0.5, 255.0]]]


def test_an_object_is_any_value_above_zero_that_is_a_label():
    labels = torch.tensor([[[0.0, 255.0]], [[0.1, 0.0]], [[255.0, 1.0]]])
    assert has_object(labels).tolist() == [False, True, True]


def test_maps_of_different_sizes_are_put_on_one_grid():
    """The shots of a task: zeros, or 255, where a map has no cell."""
    maps = [torch.rand(16, 6, 8), torch.rand(16, 8, 6)]
    grid = on_one_grid(maps, 255)
    assert grid.shape == (2, 16, 8, 8)
    assert torch.equal(grid[0, :, :6], maps[0])
    assert torch.equal(grid[1, :, :, :6], maps[1])
    assert (grid[0, :, 6:] == 255).all()
    assert (grid[1, :, :, 6:] == 255).all()
    assert torch.equal(on_one_grid([maps[0], maps[0]]), torch.stack([maps[0], maps[0]]))
