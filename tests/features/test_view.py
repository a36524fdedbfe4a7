"""The three resize rules, and the way back to the image's own size, against slow, independent versions."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from repri.features.view import resized
from repri.runtime.errors import RepriError
from tests.make import Cells, noise

from . import slow


def view(original, resize, size, stride=8, on_pixels=True):
    return Cells(stride, on_pixels).view(original, resize, size)


@pytest.mark.parametrize(("height", "width"), [(75, 100), (100, 67), (50, 50)])
def test_letterbox_is_linear_without_smoothing_and_padded_to_the_square(height, width):
    image, ids = noise(height, width), np.arange(height * width).reshape(height, width) % 21
    seen = view((height, width), "letterbox", 65)
    h, w = seen.content
    assert h % 8 == w % 8 == 0
    assert max(h, w) == 64
    pixels, mask = seen.pixels(image), seen.mask(ids.astype(np.uint8))
    assert pixels.shape == (3, 65, 65)
    for i, j in [(0, 0), (h - 1, w - 1), (h // 2, w // 3), (1, w - 2)]:
        wanted = slow.bilinear_at(image / 255, (i + 0.5) * height / h - 0.5, (j + 0.5) * width / w - 0.5)
        np.testing.assert_allclose(pixels[:, i, j], wanted, atol=1e-5)
    assert (pixels[:, h:] == 0).all()
    assert (pixels[:, :, w:] == 0).all()
    assert (mask[h:] == 255).all()
    assert (mask[:, w:] == 255).all()


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        ((375, 500), (312, 416)),
        ((333, 500), (272, 416)),
        ((500, 375), (416, 312)),
        ((500, 500), (416, 416)),
        ((106, 206), (208, 416)),
    ],
)
def test_sizes_of_letterbox(size, expected):
    assert resized(size, "letterbox", 417, None) == (expected, (417, 417))


@pytest.mark.parametrize(("longest", "shortest"), [(500, range(100, 501)), (640, range(100, 641, 4))])
def test_masks_of_letterbox_follow_the_index_of_opencv(longest, shortest):
    """⌊i·(1/(new/old))⌋ in double precision, which is not always ⌊i·(old/new)⌋."""
    different = 0
    for old in shortest:
        seen = view((old, longest), "letterbox", 417)
        ids = np.arange(old, dtype=np.int32)[:, None] * 1000 + np.arange(longest, dtype=np.int32)
        mask, (height, width) = seen.mask(ids), seen.content
        rows = [min(int(i * (1 / (height / old))), old - 1) for i in range(height)]
        columns = [min(int(j * (1 / (width / longest))), longest - 1) for j in range(width)]
        assert (mask[:height, 0] // 1000).tolist() == rows, old
        assert (mask[0, :width] % 1000).tolist() == columns, old
        different += rows != [int(i * (old / height)) for i in range(height)]
    assert different > 0


@pytest.mark.parametrize(("resize", "size"), [("square", 33), ("square", 150), ("aspect", 40), ("aspect", 130)])
def test_square_and_aspect_are_smoothed_as_pillow_does(resize, size):
    image = noise(75, 100)
    seen = view((75, 100), resize, size)
    height, width = seen.content
    expected = Image.fromarray(image).resize((width, height), Image.Resampling.BILINEAR)
    found = (seen.pixels(image)[:, :height, :width] * 255).movedim(0, -1)
    assert np.abs(found.numpy() - np.asarray(expected, np.float32)).max() <= 1.001


@pytest.mark.parametrize(("resize", "size"), [("square", 33), ("aspect", 40), ("aspect", 130)])
def test_masks_of_square_and_aspect_take_the_pixel_at_the_centre(resize, size):
    ids = np.arange(75 * 100, dtype=np.int32).reshape(75, 100)
    seen = view((75, 100), resize, size)
    mask = seen.mask(ids)
    for i, j in ((0, 0), (5, 7), (seen.content[0] - 1, seen.content[1] - 1)):
        y, x = int((i + 0.5) * 75 / seen.content[0]), int((j + 0.5) * 100 / seen.content[1])
        assert mask[i, j] == ids[y, x]


def test_square_fills_the_input_and_aspect_repeats_the_edge():
    image, mask = noise(75, 100), np.zeros((75, 100), np.uint8)
    whole = view((75, 100), "square", 65)
    assert whole.content == whole.full == (65, 65)
    assert whole.valid().all()
    seen = view((75, 100), "aspect", 70, 14, on_pixels=False)
    assert (seen.content, seen.full) == ((52, 70), (56, 70))
    pixels = seen.pixels(image)
    assert (pixels[:, 52:] == pixels[:, 51:52]).all()
    assert (seen.mask(mask)[52:] == 255).all()
    assert (seen.mask(mask)[:52] == 0).all()


def test_an_input_may_be_padded_to_a_square():
    seen = Cells(14).view((75, 100), size=70, square=True)
    assert (seen.content, seen.full) == ((52, 70), (70, 70))
    assert seen.pixels(noise(75, 100)).shape == (3, 70, 70)


@given(
    st.integers(1, 90),
    st.integers(1, 90),
    st.sampled_from(["letterbox", "square", "aspect"]),
    st.sampled_from([(8, True), (14, False)]),
)
def test_any_size_fits(height, width, resize, cells):
    seen = view((height, width), resize, 56, *cells)
    pixels, mask = seen.pixels(noise(height, width)), seen.mask(np.zeros((height, width), np.uint8))
    assert pixels.shape[1:] == mask.shape == seen.full
    assert (mask == 0).sum() == seen.content[0] * seen.content[1]
    assert ((pixels >= 0) & (pixels <= 1)).all()
    if cells == (14, False):
        assert all(side % 14 == 0 for side in seen.full)
    if resize == "aspect":
        assert all(side < content + 14 for side, content in zip(seen.full, seen.content, strict=True))
    assert seen.valid().shape == seen.grid.cells
    assert seen.restore(torch.rand(2, *seen.grid.cells)).shape == (2, height, width)


def test_masks_of_many_classes_survive():
    mask = np.full((10, 10), 400, np.uint16)
    assert (view((10, 10), "square", 20).mask(mask) == 400).all()


@pytest.mark.parametrize("on_pixels", [True, False])
def test_valid_cells_are_those_whose_nearest_pixel_shows_the_image(on_pixels):
    seen = view((50, 100), "letterbox", 64, 8, on_pixels)
    inside = torch.zeros(1, 1, *seen.full)
    inside[..., : seen.content[0], : seen.content[1]] = 1
    expected = F.interpolate(inside, seen.grid.cells, mode="nearest")[0, 0] == 1
    assert torch.equal(seen.valid(), expected)
    assert not seen.valid().all()


@pytest.mark.parametrize("resize", ["aspect", "square", "letterbox"])
@pytest.mark.parametrize("on_pixels", [True, False])
def test_restore_is_bilinear_twice_without_the_padding(resize, on_pixels):
    seen = view((21, 30), resize, 40, 8, on_pixels)
    maps = torch.rand(1, *seen.grid.cells)
    full = slow.upsampled(maps[0].numpy(), seen.grid)[: seen.content[0], : seen.content[1]]
    np.testing.assert_allclose(seen.restore(maps)[0], slow.resized(full, (21, 30)), atol=1e-5)


def test_restore_undoes_the_padding():
    seen = view((50, 100), "letterbox", 65)
    assert (seen.restore(torch.ones(seen.grid.cells)) == 1).all()
    inside = torch.zeros(seen.grid.cells)
    inside[:4] = 1  # the rows of cells on the pixels 0 … 24, and the image ends at 32
    assert (seen.restore(inside)[:36] > 0.99).all()


@pytest.mark.parametrize("size", [(313, 417), (300, 400), (417, 417), (33, 50)])
def test_cells_on_pixels_are_put_back_there(size):
    """A map that holds the place of each cell becomes a map of places."""
    seen = view(size, "aspect", max(size), 16)
    cells = [torch.arange(0, side, 16).float() for side in size]
    found = seen.restore(torch.stack(torch.meshgrid(*cells, indexing="ij")))
    pixels = torch.stack(torch.meshgrid(*(torch.arange(side).float() for side in size), indexing="ij"))
    for axis in (0, 1):  # the last cell is repeated beyond its place
        torch.testing.assert_close(found[axis], pixels[axis].clamp_max(cells[axis][-1]), rtol=0, atol=1e-3)


@pytest.mark.parametrize("flipped", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("from_pixels", [True, False])
@pytest.mark.parametrize("to_pixels", [True, False])
def test_resample_interpolates_at_the_cells_of_another_view(flipped, from_pixels, to_pixels):
    source = view((60, 90), "aspect", 72, 8, from_pixels)
    target = view((60, 90), "letterbox", 64, 16, to_pixels)
    maps = torch.rand(1, *source.grid.cells)
    found = source.resample(maps, target, flipped)[0]
    assert tuple(found.shape) == target.grid.cells
    beyond = 0
    for i in range(target.grid.cells[0]):
        for j in range(target.grid.cells[1]):
            pixel = [slow.pixel_at(target.grid, axis, cell) for axis, cell in enumerate((i, j))]
            if pixel[0] >= target.content[0] or pixel[1] >= target.content[1]:
                assert found[i, j] == 0
                beyond += 1
                continue
            part = [(p + 0.5) / side for p, side in zip(pixel, target.content, strict=True)]
            turned = [1 - p if flip else p for p, flip in zip(part, flipped[::-1], strict=True)]
            place = [p * side - 0.5 for p, side in zip(turned, source.content, strict=True)]
            cell = [slow.cell_at(source.grid, axis, p) for axis, p in enumerate(place)]
            assert found[i, j] == pytest.approx(slow.bilinear_at(maps[0].numpy(), *cell), abs=1e-4)
    assert beyond > 0


def test_mistakes_are_named():
    for call, sentence in (
        (lambda: resized((10, 10), "crop", 64, None), "There is no resize rule named 'crop'. Known: aspect, square"),
        (lambda: resized((10, 0), "aspect", 64, None), "An image of 0×10 pixels cannot be resized to 64 pixels"),
        (lambda: resized((10, 20), "letterbox", 5, None), "An image of 20×10 pixels cannot be resized to 5 pixels"),
    ):
        with pytest.raises(RepriError, match=sentence):
            call()
