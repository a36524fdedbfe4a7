"""Polygons of regions, drawn again."""

import math

import numpy as np
import pytest

from repri.data.io.outlines import circle, filled, polygons_of
from repri.data.io.segmentations import decode


@pytest.mark.parametrize("seed", range(5))
def test_outlines_of_anything(seed):
    """Noise: many parts, holes in holes, single pixels."""
    region = np.random.default_rng(seed).random((20, 30)) < 0.5
    flat = [[v for point in ring for v in point] for ring in polygons_of(region)]
    assert (decode(flat, 20, 30) == region).mean() > 0.97
    drawn = np.zeros_like(region)
    for ring in polygons_of(region):
        drawn |= filled(np.array(ring) / (30, 20) * (30, 20) + 1e-6, 20, 30)
    assert (drawn == region).all(), "the outlines give the region back, also if they are rounded a little"


def test_a_circle():
    points = circle((10, 20), (3, 5))
    assert len(points) == 64
    assert points[0] == (13, 20)
    assert all(math.isclose(((x - 10) / 3) ** 2 + ((y - 20) / 5) ** 2, 1) for x, y in points)
