"""Simulated scribbles."""

import numpy as np
import pytest

from repri.segmenter.trial.scribbles import scribble
from tests.make import square


@pytest.fixture
def mask():
    mask = np.zeros((200, 300), np.uint8)
    mask[20:120, 30:180] = 1
    mask[130:190, 200:290] = 2
    mask[:, :10] = 255
    return mask


@pytest.mark.parametrize("seed", range(5))
def test_strokes_lie_inside_their_regions(mask, seed):
    marks = scribble(mask, seed)
    assert marks.shape == mask.shape
    assert marks.dtype == mask.dtype
    assert set(np.unique(marks)) == {0, 1, 2, 255}
    for id in (0, 1, 2):
        assert (mask[marks == id] == id).all()
        assert 0.01 < (marks == id).sum() / (mask == id).sum() < 0.04
    assert (marks[mask == 255] == 255).all()


def test_strokes_keep_away_from_borders(mask):
    """A person does not paint along the border of the object."""
    inside = scribble(mask, 0) == 1
    assert not (inside[20] | inside[119]).any()
    assert not (inside[:, 30] | inside[:, 179]).any()


def test_the_seed_decides(mask):
    assert np.array_equal(scribble(mask, (0, 3)), scribble(mask, (0, 3)))
    assert not np.array_equal(scribble(mask, (0, 3)), scribble(mask, (0, 4)))


@pytest.mark.parametrize("side", [1, 2, 3])
def test_tiny_objects_are_marked_too(side):
    mask = square(40, 60, side=side)
    marks = scribble(mask, 0)
    assert (marks == 1).any()
    assert (mask[marks == 1] == 1).all()


def test_a_line_of_one_pixel_is_marked():
    mask = np.zeros((100, 100), np.uint8)
    mask[50] = 1
    marks = scribble(mask, 0)
    assert (marks == 1).sum() >= 2
    assert (mask[marks == 1] == 1).all()
