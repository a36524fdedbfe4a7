"""Overlapping tiles of a large image."""

from itertools import pairwise

import numpy as np
import pytest

from repri.segmenter.tiles import starts, window


@pytest.mark.parametrize(("length", "side"), [(500, 300), (300, 300), (1000, 256), (257, 256), (100, 300)])
def test_tiles_cover_everything_and_overlap_by_a_quarter(length, side):
    places = starts(length, side)
    covered = np.zeros(length, int)
    for start in places:
        covered[start : start + side] += 1
    assert covered.min() >= 1
    assert places[0] == 0
    assert len(places) == 1 or places[-1] + side == length
    assert all(later - earlier <= 3 * side / 4 + 1 for earlier, later in pairwise(places))


def test_weights_are_low_at_the_border_and_never_zero():
    weights = window(64)
    assert weights.min() == weights[0] == weights[-1] > 0
    assert weights[16:48].min() == weights.max() == 1
    assert weights.flip(0).tolist() == pytest.approx(weights.tolist())
