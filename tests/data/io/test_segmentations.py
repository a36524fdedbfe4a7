"""Objects of COCO files are drawn as pycocotools draws them, on the part of the image around them."""

import numpy as np
import pytest
from pycocotools import mask as rle

from repri.data.io import segmentations
from repri.data.io.segmentations import area, decode, decode_patch, encode


@pytest.mark.parametrize("small", [0, 2**20])
def test_polygons_are_those_of_pycocotools(monkeypatch, small):
    """Drawn on the whole image, they are equal. On a part of it, a line that meets a corner of a pixel may differ."""
    monkeypatch.setattr(segmentations, "SMALL", small)
    draw, different = np.random.default_rng(0), 0
    for _ in range(300):
        height, width = draw.integers(1, 80, 2).tolist()
        spread = draw.choice([2, 10, 40])
        polygons = [draw.normal(draw.uniform(-20, 100), spread, 8).tolist() for _ in range(2)]
        wanted = rle.decode(rle.merge(rle.frPyObjects(polygons, height, width))).astype(bool)
        region = decode(polygons, height, width)
        different += int((region != wanted).sum())
        assert area(polygons, height, width) == region.sum()
    assert different <= (2 if small == 0 else 0)


@pytest.mark.parametrize("density", [0, 0.01, 0.5, 1])
def test_run_lengths_come_back(density):
    region = np.random.default_rng(1).random((13, 17)) < density
    code = encode(region)
    assert np.array_equal(decode(code, 13, 17), region)
    assert area(code, 13, 17) == region.sum()


def test_a_small_object_of_a_large_image_takes_little_memory():
    patch = decode_patch([[5000, 7000, 5020, 7000, 5020, 7010]], 12000, 12000)
    assert patch.region.size < 1000
    assert (patch.top, patch.left) == (6999, 4999)
    assert 80 < patch.region.sum() < 120
    runs = {"size": [12000, 12000], "counts": [12000 * 40 + 5, 10, 12000 * 11959 + 11985]}
    assert decode_patch(runs, 12000, 12000).region.shape == (12000, 1)


def test_an_object_outside_of_the_image_has_no_pixel():
    assert decode_patch([[-9, -9, -5, -9, -5, -5]], 20, 20).region.size == 0
    assert not decode([[30, 30, 40, 30, 40, 40]], 20, 20).any()
