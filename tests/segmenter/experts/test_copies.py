"""Varied copies of annotated images."""

import numpy as np

from repri.segmenter.experts.copies import SIZE, resized_mask, varied
from tests.make import noise, square


def test_copies_differ_and_can_be_repeated():
    image = noise(40, 60)
    first, again, other = (list(varied(image, 3, seed)) for seed in (0, 0, 1))
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not np.array_equal(first[0], other[0])
    for copy in first:
        assert copy.dtype == np.uint8
        assert copy.shape[2] == 3
        for new, old in zip(copy.shape[:2], image.shape[:2], strict=True):
            assert np.exp(-SIZE) * old - 1 <= new <= np.exp(SIZE) * old + 1


def test_copies_keep_the_order_of_levels():
    ramp = np.repeat(np.arange(0, 256, 4, np.uint8)[None, :, None], 3, 2).repeat(64, 0)
    for copy in varied(ramp, 4, seed=3):
        middle = copy[copy.shape[0] // 2, :, 0].astype(int)
        assert (np.diff(middle) >= 0).all()
        assert middle[-1] > middle[0] + 60


def test_masks_follow_by_their_nearest_pixels():
    mask = square(40, 60)
    assert resized_mask(mask, (40, 60)) is mask
    doubled = resized_mask(mask, (80, 120))
    assert np.array_equal(doubled, mask.repeat(2, 0).repeat(2, 1))
    assert np.array_equal(resized_mask(doubled, (40, 60)), mask)
