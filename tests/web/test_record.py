"""What is kept of a result."""

import numpy as np

from repri.segmenter.result import Segmentation
from repri.web.record import maps_of, thresholded
from repri.web.support import Support


def result(**probabilities):
    maps = {name: np.array([values], np.float32) for name, values in probabilities.items()}
    stacked = np.stack(list(maps.values()))
    best, rest = stacked.max(0), 1 - stacked.sum(0)
    mask = np.where(best > (0.5 if len(maps) == 1 else rest), stacked.argmax(0) + 1, 0).astype(np.uint8)
    image = np.zeros((1, mask.shape[1], 3), np.uint8)
    ones = dict.fromkeys(maps, 0.5)
    return Segmentation("a", image, mask, maps, ones, 0.8, ones)


def test_the_usual_threshold_leaves_the_mask_as_it_is():
    one = result(a=[0.2, 0.5, 0.51, 0.9])
    assert thresholded(one, 0.5) is one.mask
    assert thresholded(one, 0.499999).tolist() == [[0, 1, 1, 1]]
    assert thresholded(one, 0.8).tolist() == [[0, 0, 0, 1]]


def test_classes_compete_with_the_background():
    two = result(a=[0.4, 0.1, 0.3], b=[0.35, 0.2, 0.6])
    assert two.mask.tolist() == [[1, 0, 2]]
    assert thresholded(two, 0.500001).tolist() == two.mask.tolist()
    assert thresholded(two, 0.8).tolist() == [[0, 0, 2]]
    assert thresholded(two, 0.1).tolist() == [[1, 2, 2]]


def test_labels_of_the_project():
    support = Support((), (), ("b",), (4,))
    maps = maps_of(result(b=[0.2, 0.9]), support, 0.5, 7, "quick", 1.0)
    assert maps.mask.tolist() == maps.record.mask.tolist() == [[0, 4]]
    assert maps.probabilities[4].tolist() == [[51, 230]]
    assert maps.record.content()["areas"] == {"b": 0.5}
