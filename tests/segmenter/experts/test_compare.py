"""The support and the two experts, fitted to parts of it."""

import numpy as np
import pytest

from repri import Segmenter
from repri.data.datasets.examples import EXAMPLES
from repri.segmenter.experts.choose import choose
from repri.segmenter.experts.compare import LARGEST, Compare
from repri.segmenter.experts.textures import SMALL

from .test_choose import comparison
from .test_textures import blobs


def test_large_images_are_reduced_for_the_comparison():
    image, mask = np.zeros((1000, 3000, 3), np.uint8), np.zeros((1000, 3000), np.uint8)
    image[300:700, 900:1500], mask[300:700, 900:1500] = (200, 30, 30), 1
    compare = comparison([image], [mask])
    small = compare.reduced()
    assert small.images[0].shape[1] == LARGEST
    assert small.maps[0].shape == small.images[0].shape[:2]
    assert small.maps[0].mean() == pytest.approx(mask.mean(), abs=0.01)
    assert small.factor * small.scale == pytest.approx(compare.scale, rel=0.01)
    _, textures = choose(compare, weight=0.5)
    assert textures.scale == pytest.approx(compare.scale, rel=0.01)
    assert comparison([blobs()[0]], [blobs()[1]]).reduced().factor == 1


@pytest.mark.parametrize(("name", "uniform"), [("coins", True), ("people", False)])
def test_images_that_are_all_of_one_kind(name, uniform):
    segmenter, (shown,) = Segmenter(), EXAMPLES[name].support()
    compare = Compare(segmenter._look(), SMALL, [shown.image], [shown.mask], 1, segmenter.inference, True, "none")
    assert compare.uniform is uniform
