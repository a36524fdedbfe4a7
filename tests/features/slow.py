"""Slow versions of interpolation and pooling, written from their definitions."""

import numpy as np


def bilinear_at(values, y, x):
    """One value of an array [H, W, …] between its entries, clamped at the border."""
    height, width = values.shape[:2]
    y, x = min(max(y, 0), height - 1), min(max(x, 0), width - 1)
    top, left = int(y), int(x)
    bottom, right = min(top + 1, height - 1), min(left + 1, width - 1)
    fy, fx = y - top, x - left
    upper = values[top, left] * (1 - fx) + values[top, right] * fx
    lower = values[bottom, left] * (1 - fx) + values[bottom, right] * fx
    return upper * (1 - fy) + lower * fy


def cell_at(grid, axis, pixel):
    """The place, in cells, of a pixel along an axis of a grid."""
    if grid.on_pixels:
        return pixel / grid.stride
    return (pixel + 0.5) * grid.cells[axis] / grid.pixels[axis] - 0.5


def pixel_at(grid, axis, cell):
    """The place, in pixels, of a cell along an axis of a grid."""
    if grid.on_pixels:
        return cell * grid.stride
    return (cell + 0.5) * grid.pixels[axis] / grid.cells[axis] - 0.5


def upsampled(values, grid):
    """A map [h, w] of cells at every pixel of the grid's input."""
    out = np.zeros(grid.pixels)
    for i in range(grid.pixels[0]):
        for j in range(grid.pixels[1]):
            out[i, j] = bilinear_at(values, cell_at(grid, 0, i), cell_at(grid, 1, j))
    return out


def resized(values, size):
    """An array [H, W] at another size: bilinear, by the centres of its pixels, without smoothing."""
    out = np.zeros(size)
    for i in range(size[0]):
        for j in range(size[1]):
            out[i, j] = bilinear_at(
                values, (i + 0.5) * len(values) / size[0] - 0.5, (j + 0.5) * values.shape[1] / size[1] - 0.5
            )
    return out


def around(grid, axis, cell):
    """First pixel of the stretch around a cell, and the one after its last, outside the input too."""
    if grid.on_pixels:
        first = cell * grid.stride - grid.stride // 2
        return first, first + grid.stride
    side = grid.pixels[axis] // grid.cells[axis]
    return cell * side, (cell + 1) * side
