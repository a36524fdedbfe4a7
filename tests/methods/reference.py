"""Independent arithmetic in numpy for the heads of learned methods: loops over taps, bins and pixels."""

import numpy as np

__all__ = ["adaptive_pool", "align_corners", "convolve", "half_pixels", "relu"]


def convolve(x, weight, bias=None, rate=1):
    """[c, h, w] → [o, h, w]: a convolution with as much zero padding as keeps the size."""
    _, height, width = x.shape
    reach = weight.shape[2] // 2
    out = np.zeros((weight.shape[0], height, width))
    for i in range(height):
        for j in range(width):
            for a in range(weight.shape[2]):
                for b in range(weight.shape[3]):
                    y, z = i + (a - reach) * rate, j + (b - reach) * rate
                    if 0 <= y < height and 0 <= z < width:
                        out[:, i, j] += weight[:, :, a, b] @ x[:, y, z]
    return out if bias is None else out + bias[:, None, None]


def relu(x):
    return np.maximum(x, 0)


def adaptive_pool(x, size):
    """[c, h, w] → [c, *size]: means from ⌊i·h/n⌋ to ⌈(i + 1)·h/n⌉."""
    out = np.zeros((len(x), *size))
    for i in range(size[0]):
        for j in range(size[1]):
            rows = slice(i * x.shape[1] // size[0], -(-(i + 1) * x.shape[1] // size[0]))
            columns = slice(j * x.shape[2] // size[1], -(-(j + 1) * x.shape[2] // size[1]))
            out[:, i, j] = x[:, rows, columns].mean((1, 2))
    return out


def _matrix(new, old, place):
    out = np.zeros((new, old))
    for i in range(new):
        where = min(max(place(i), 0), old - 1)
        low = int(np.floor(where))
        out[i, low] += 1 - (where - low)
        if where > low:
            out[i, low + 1] += where - low
    return out


def align_corners(x, size):
    """[…, h, w] → […, *size], with the outer cells on the outer ones."""
    places = [
        _matrix(new, old, lambda i, new=new, old=old: i * (old - 1) / (new - 1) if new > 1 else 0)
        for new, old in zip(size, x.shape[-2:], strict=True)
    ]
    return places[0] @ x @ places[1].T


def half_pixels(x, size):
    """[…, h, w] → […, *size], with cells that tile the image."""
    places = [
        _matrix(new, old, lambda i, new=new, old=old: (i + 0.5) * old / new - 0.5)
        for new, old in zip(size, x.shape[-2:], strict=True)
    ]
    return places[0] @ x @ places[1].T
