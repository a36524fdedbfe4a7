"""Masks as labels of cells: by area, by the nearest pixel, by the pixel at the centre."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from repri.features.labels import cell_labels, cell_weights, proportion_of
from tests.make import Cells

from .slow import around


def random_mask(height, width, values=(0, 1, 255), seed=0):
    return np.random.default_rng(seed).choice(np.array(values, np.uint8), (height, width))


@pytest.mark.parametrize("on_pixels", [True, False])
def test_area_is_the_fraction_of_the_labelled_pixels_around_a_cell(on_pixels):
    view = Cells(8, on_pixels).view((43, 64), size=64)
    mask = random_mask(43, 64)
    mask[:12, :12] = 255
    labels = cell_labels(mask, view)
    for i in range(view.grid.cells[0]):
        for j in range(view.grid.cells[1]):
            (top, bottom), (left, right) = around(view.grid, 0, i), around(view.grid, 1, j)
            near = mask[max(top, 0) : min(bottom, 43), max(left, 0) : min(right, 64)]
            known = near[near != 255]
            assert labels[i, j] == pytest.approx(known.mean() if known.size else 255, abs=1e-5)
    assert labels[0, 0] == 255


@pytest.mark.parametrize("on_pixels", [True, False])
def test_area_of_several_classes_is_the_largest_one(on_pixels):
    view = Cells(8, on_pixels).view((48, 64), size=64)
    mask = random_mask(48, 64, (0, 1, 2, 3, 255))
    labels = cell_labels(mask, view, classes=3)
    for i in range(view.grid.cells[0]):
        for j in range(view.grid.cells[1]):
            (top, bottom), (left, right) = around(view.grid, 0, i), around(view.grid, 1, j)
            near = mask[max(top, 0) : bottom, max(left, 0) : right]
            counts = [(near == n).sum() for n in range(4)]
            assert counts[int(labels[i, j])] == max(counts)


def test_area_of_a_resized_mask_counts_every_pixel():
    """A mask of twice the size: each pixel of the input stands for four."""
    view = Cells(8).view((96, 128), size=64)
    mask = random_mask(96, 128, (0, 1))
    expected = mask.reshape(6, 16, 8, 16).mean((1, 3))
    np.testing.assert_allclose(cell_labels(mask, view), expected, atol=1e-5)


def test_soft_values_are_averaged():
    view = Cells(8).view((64, 64), size=64)
    mask = np.random.default_rng(0).random((64, 64)).astype(np.float32)
    mask[:8, :8] = 255
    labels = cell_labels(mask, view)
    assert labels[0, 0] == 255
    assert labels[1, 1] == pytest.approx(mask[8:16, 8:16].mean(), abs=1e-5)


def test_cells_on_pixels_are_labelled_by_the_pixels_around_them():
    mask = np.zeros((97, 97), np.uint8)
    mask[:36, :36] = 1
    labels = Cells(16, on_pixels=True).view((97, 97), size=97).labels(mask)
    assert labels[0, 0] == labels[1, 1] == 1  # pixels 0 and 16
    assert labels[2, 2] == pytest.approx(0.5625)  # 12 of the 16 pixels around 32, in both directions
    assert labels[3, 3] == 0


@pytest.mark.parametrize("on_pixels", [True, False])
def test_thin_marks_are_not_lost(on_pixels):
    mask = np.full((2000, 3000), 255, np.uint8)
    mask[1000:1003, 500:900] = 1
    mask[100:103] = 0
    view = Cells(16, on_pixels).view((2000, 3000), size=321 if on_pixels else 320)
    labels = view.labels(mask)
    assert (labels[5:9] > 0.99).sum() > 0
    assert (labels == 0).sum() >= 20
    assert (labels == 255).sum() > 200
    ids = view.labels(np.where(mask == 255, 0, mask * 2), classes=2)
    assert (ids == 2).sum() >= 1


def test_a_class_that_no_cell_shows_most_keeps_its_best_cell():
    mask = np.ones((64, 64), np.uint8)
    mask[17:20, 41:44] = 2
    labels = Cells(8).view((64, 64), size=64).labels(mask, classes=2)
    assert (labels == 2).nonzero().tolist() == [[2, 5]]


@pytest.mark.parametrize("resize", ["letterbox", "square"])
def test_nearest_is_the_mask_at_the_networks_size_resized_as_torch_does(resize):
    view = Cells(8, on_pixels=True).view((75, 100), resize, 65)
    mask = random_mask(75, 100)
    full = view.mask(mask)[None, None].float()
    expected = F.interpolate(full, view.grid.cells, mode="nearest")[0, 0]
    assert torch.equal(view.labels(mask, "nearest").float(), expected)


@pytest.mark.parametrize("on_pixels", [True, False])
def test_centre_is_the_pixel_of_each_cell(on_pixels):
    view = Cells(8, on_pixels).view((48, 64), size=64)
    mask = random_mask(48, 64, range(200))
    offset = 0 if on_pixels else 4
    assert torch.equal(view.labels(mask, "centre"), torch.from_numpy(mask[offset::8, offset::8]))


def test_proportion_of_labelled_cells():
    assert proportion_of(torch.tensor([[1.0, 0.0], [0.25, 255.0]])) == pytest.approx(1.25 / 3)
    assert proportion_of(torch.tensor([[1, 0], [255, 255]], dtype=torch.uint8)) == 0.5
    assert math.isnan(proportion_of(torch.full((2, 2), 255.0)))


@pytest.mark.parametrize("on_pixels", [True, False])
def test_adjoint_weights_average_upsampled_features(on_pixels):
    """Σ over cells of weight · feature is Σ over pixels of mask · upsampled feature."""
    view = Cells(8, on_pixels).view((41, 57), size=57)
    mask = view.mask(random_mask(41, 57))
    features = torch.randn(3, *view.grid.cells)
    weights = cell_weights(mask, view.grid, "adjoint")
    full = view.grid.upsample(features)
    for side in (0, 1):
        found = (weights[side] * features).sum((1, 2))
        assert torch.allclose(found, full[:, mask == side].sum(1), atol=1e-3)
        assert weights[side].sum() == pytest.approx(int((mask == side).sum()), rel=1e-5)
    rows, columns = view.grid.spread()
    assert torch.allclose(rows @ features @ columns.T, full, atol=1e-5)


def test_other_weights():
    view = Cells(8).view((40, 56), size=56)
    mask = view.mask(random_mask(40, 56))
    area, near, smooth = (cell_weights(mask, view.grid, how) for how in ("area", "nearest", "bilinear"))
    for side in (0, 1):
        here = (mask == side).float()
        assert torch.allclose(area[side], F.avg_pool2d(here[None], 8)[0])
        assert torch.equal(near[side], here[::8, ::8])
        wanted = F.interpolate(here[None, None], (5, 7), mode="bilinear", align_corners=True)[0, 0]
        assert torch.allclose(smooth[side], wanted)
    dot = torch.zeros(40, 56)
    dot[11, 13] = 1  # which neither sees
    for how in ("nearest", "bilinear"):
        assert torch.equal(cell_weights(dot, view.grid, how), cell_weights(dot, view.grid, "area"))
