"""The three rules against slow, independent versions."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from repri.features.view import geometry, resize, restore, step_of
from tests.data.make import picture


def bilinear_at(image, y, x):
    """One value of an image [H, W, 3] between its pixels, clamped at the border."""
    height, width = image.shape[:2]
    y, x = min(max(y, 0), height - 1), min(max(x, 0), width - 1)
    top, left = int(y), int(x)
    bottom, right = min(top + 1, height - 1), min(left + 1, width - 1)
    fy, fx = y - top, x - left
    upper = image[top, left] * (1 - fx) + image[top, right] * fx
    lower = image[bottom, left] * (1 - fx) + image[bottom, right] * fx
    return upper * (1 - fy) + lower * fy


@pytest.mark.parametrize(("height", "width"), [(75, 100), (100, 67), (50, 50)])
def test_official_is_linear_without_smoothing_padded_to_the_square(height, width):
    image, mask = picture(height, width), np.arange(height * width).reshape(height, width) % 21
    out = resize(image, mask.astype(np.uint8), "official", 65)
    h, w = out.geometry.content
    assert h % 8 == w % 8 == 0
    assert max(h, w) == 64
    assert out.image.shape == (3, 65, 65)
    for i, j in [(0, 0), (h - 1, w - 1), (h // 2, w // 3), (1, w - 2)]:
        wanted = bilinear_at(image / 255, (i + 0.5) * height / h - 0.5, (j + 0.5) * width / w - 0.5)
        assert np.allclose(out.image[:, i, j], wanted, atol=1e-5)
        assert out.mask[i, j] == mask[int(i * height / h), int(j * width / w)]
    assert (out.image[:, h:] == 0).all()
    assert (out.mask[h:] == 255).all()
    assert (out.mask[:, w:] == 255).all()
    assert out.valid.sum() == h * w
    assert out.valid[:h, :w].all()


@pytest.mark.parametrize(
    ("size", "wanted"),
    [
        ((375, 500), (312, 416)),
        ((333, 500), (272, 416)),
        ((500, 375), (416, 312)),
        ((500, 500), (416, 416)),
        ((106, 206), (208, 416)),
    ],
)
def test_official_sizes(size, wanted):
    assert geometry(size, "official").content == wanted


def test_paper_is_square_and_clean_keeps_the_aspect():
    image, mask = picture(75, 100), np.zeros((75, 100), np.uint8)
    square = resize(image, mask, "paper", 65)
    assert square.image.shape == (3, 65, 65)
    assert square.valid.all()
    clean = resize(image, mask, "clean", 70, 14)
    assert clean.geometry.content == (52, 70)
    assert clean.image.shape == (3, 56, 70)
    assert (clean.image[:, 52:] == clean.image[:, 51:52]).all()  # the edge repeated
    assert clean.valid[:52].all()
    assert not clean.valid[52:].any()
    assert (clean.mask[52:] == 255).all()


@given(
    st.integers(1, 90), st.integers(1, 90), st.sampled_from(["official", "paper", "clean"]), st.sampled_from([None, 14])
)
def test_any_size_fits(height, width, rule, multiple):
    out = resize(picture(height, width), np.zeros((height, width), np.uint8), rule, 56, multiple)
    assert out.image.shape[1:] == out.mask.shape == out.valid.shape
    assert out.valid.sum() == out.geometry.content[0] * out.geometry.content[1]
    assert (out.mask[~out.valid] == 255).all()
    assert ((out.image >= 0) & (out.image <= 1)).all()
    if rule == "clean" and multiple:
        assert all(
            side % 14 == 0 and side < content + 14
            for side, content in zip(out.valid.shape, out.geometry.content, strict=True)
        )
    assert restore(torch.rand(2, 4, 4), out.geometry).shape == (2, height, width)


def test_restore_undoes_the_padding():
    image = picture(50, 100)
    out = resize(image, None, "official", 65)
    inside = out.valid.float()
    assert (restore(inside, out.geometry) > 0.99).all()


@pytest.mark.parametrize("size", [(313, 417), (300, 400), (417, 417), (33, 50)])
def test_cells_on_pixels_are_put_back_there(size):
    """A map that holds the place of each cell becomes a map of places."""
    where = geometry(size, "clean", max(size))
    cells = [torch.arange(0, side, 16).float() for side in size]
    places = torch.stack(torch.meshgrid(*cells, indexing="ij"))
    found = restore(places, where, 16)
    pixels = torch.stack(torch.meshgrid(*(torch.arange(side).float() for side in size), indexing="ij"))
    for axis in (0, 1):  # beyond the last cell it is repeated
        torch.testing.assert_close(found[axis], pixels[axis].clamp_max(cells[axis][-1]), rtol=0, atol=1e-3)


def test_who_lies_on_pixels():
    assert step_of(True, (20, 27), (313, 417), 16) == 16
    assert step_of(False, (27, 27), (417, 417), 16) == 16  # corner to corner
    assert step_of(False, (30, 30), (420, 420), 14) is None


def test_masks_of_many_classes_survive():
    mask = np.full((10, 10), 400, np.uint16)
    assert (resize(picture(10, 10), mask, "paper", 20).mask == 400).all()


def test_a_mask_of_another_size_is_refused():
    with pytest.raises(ValueError, match="must have one size"):
        resize(picture(10, 10), np.zeros((10, 11), np.uint8), "paper")
