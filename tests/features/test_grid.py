"""Where cells lie, against slow versions of every operation."""

import numpy as np
import pytest
import torch

from repri.features.grid import Grid
from tests.make import places

from .slow import around, bilinear_at, cell_at, pixel_at, upsampled

TILES = Grid.of((4, 5), (32, 40), 8, on_pixels=False)
PIXELS = Grid.of((5, 4), (34, 27), 8, on_pixels=True)
CORNERS = Grid.of((5, 4), (33, 25), 8, on_pixels=False)
grids = pytest.mark.parametrize("grid", [TILES, PIXELS, CORNERS], ids=["tiles", "on pixels", "from corner to corner"])


@pytest.mark.parametrize(
    ("cells", "pixels", "stride", "said", "expected"),
    [
        ((20, 27), (313, 417), 16, True, True),
        ((27, 27), (417, 417), 16, False, True),  # from corner to corner, whatever the network says
        ((53, 53), (417, 417), 8, False, True),
        ((20, 27), (313, 417), 16, False, False),  # columns reach the corner, rows do not
        ((30, 30), (420, 420), 14, False, False),
        ((1, 1), (1, 1), 4, False, True),
    ],
)
def test_cells_lie_on_pixels_if_the_network_says_so_or_they_reach_from_corner_to_corner(
    cells, pixels, stride, said, expected
):
    assert Grid.of(cells, pixels, stride, said).on_pixels is expected


@grids
def test_places(grid):
    for axis, places_ in enumerate(grid.places()):
        expected = [pixel_at(grid, axis, cell) for cell in range(grid.cells[axis])]
        np.testing.assert_allclose(places_, expected, atol=1e-5)


@grids
def test_sample_takes_the_pixel_of_each_cell(grid):
    """The one on which it lies; of a tile with an even side, the one after the middle."""
    rows, columns, _ = grid.sample(places(*grid.pixels))
    offset = 0 if grid.on_pixels else 4
    for axis, found in ((0, rows[:, 0]), (1, columns[0])):
        wanted = [min(cell * 8 + offset, grid.pixels[axis] - 1) for cell in range(grid.cells[axis])]
        assert found.tolist() == wanted


@grids
def test_pool_is_the_mean_around_each_cell_with_zeros_outside(grid):
    values = torch.rand(1, *grid.pixels)
    found = grid.pool(values)[0]
    assert tuple(found.shape) == grid.cells
    for i in range(grid.cells[0]):
        for j in range(grid.cells[1]):
            (top, bottom), (left, right) = around(grid, 0, i), around(grid, 1, j)
            total = sum(
                values[0, y, x].item()
                for y in range(max(top, 0), min(bottom, grid.pixels[0]))
                for x in range(max(left, 0), min(right, grid.pixels[1]))
            )
            assert found[i, j] == pytest.approx(total / ((bottom - top) * (right - left)), abs=1e-5)


@grids
def test_upsample_puts_each_cell_at_its_place(grid):
    maps = torch.rand(2, *grid.cells)
    found = grid.upsample(maps)
    for channel in range(2):
        np.testing.assert_allclose(found[channel], upsampled(maps[channel].numpy(), grid), atol=1e-5)
    assert grid.upsample(maps[0]).shape == grid.pixels


@grids
def test_stretch_puts_the_outer_cells_on_the_outer_pixels(grid):
    maps = torch.rand(*grid.cells)
    found = grid.stretch(maps)
    height, width = grid.pixels
    for i, j in ((0, 0), (height - 1, width - 1), (7, 11), (height - 2, 1)):
        y, x = i * (grid.cells[0] - 1) / (height - 1), j * (grid.cells[1] - 1) / (width - 1)
        assert found[i, j] == pytest.approx(bilinear_at(maps.numpy(), y, x), abs=1e-5)


@grids
def test_interpolate_is_bilinear_between_cells(grid):
    maps = torch.rand(1, 2, *grid.cells)
    rows, columns = torch.tensor([0.0, 3.3, 17.9, 40.0]), torch.tensor([-2.0, 12.5, 20.0])
    found = grid.interpolate(maps, rows, columns)
    assert found.shape == (1, 2, 4, 3)
    for i, row in enumerate(rows.tolist()):
        for j, column in enumerate(columns.tolist()):
            wanted = bilinear_at(maps[0, 1].numpy(), cell_at(grid, 0, row), cell_at(grid, 1, column))
            assert found[0, 1, i, j] == pytest.approx(wanted, abs=1e-5)
