"""Label Studio's run lengths."""

import numpy as np
import pytest

from repri.data.io.formats.brush import decode_brush, encode_brush
from repri.runtime.errors import RepriError

CODE = [0, 0, 0, 140, 57, 27, 254, 35, 0, 191, 255, 108, 2, 255, 253, 176, 11, 255, 248, 124, 0]
"""Written by label_studio_sdk.converter.brush.mask2rle for rows 1-3, columns 2-5 of 5×7 pixels."""


def test_a_brush_of_label_studio_itself():
    region = np.zeros((5, 7), bool)
    region[1:4, 2:6] = True
    assert (decode_brush(CODE, 5, 7) == region).all()


@pytest.mark.parametrize("seed", range(3))
def test_brushes_of_any_region(seed):
    region = np.random.default_rng(seed).random((33, 47)) < 0.3
    assert (decode_brush(encode_brush(region), 33, 47) == region).all()


def test_runs_longer_than_the_largest_size():
    large = np.zeros((300, 400), bool)
    large[50:] = True
    assert (decode_brush(encode_brush(large), 300, 400) == large).all()


@pytest.mark.parametrize(
    ("code", "size", "message"),
    [
        (CODE[:9], (5, 7), "its RLE breaks off"),
        (CODE, (5, 8), "its RLE has 140 values, the image 160"),
        ([0, 0, 256], (5, 7), "its RLE holds values that are no bytes"),
    ],
)
def test_damaged_brushes(code, size, message):
    with pytest.raises(RepriError, match=message):
        decode_brush(code, *size)
