"""Objects as separate instances."""

import numpy as np

from repri.regions.instances import separated


def boxes(*corners, size=(60, 80)):
    out = np.zeros((len(corners), *size), bool)
    for mask, (top, left, bottom, right) in zip(out, corners, strict=True):
        mask[top:bottom, left:right] = True
    return out


def test_parts_that_do_not_touch_are_objects():
    mask = boxes((5, 5, 20, 20), (30, 40, 50, 70)).any(0)
    numbers = separated(mask)
    assert numbers.max() == 2
    assert (numbers > 0).tolist() == mask.tolist()


def test_touching_objects_are_separated_where_regions_lie_side_by_side():
    left, right = boxes((10, 10, 40, 38), (10, 42, 40, 70))
    mask = boxes((10, 10, 40, 70))[0]
    assert separated(mask).max() == 1
    numbers = separated(mask, np.stack([left, right]))
    assert numbers.max() == 2
    assert (numbers > 0).tolist() == mask.tolist()
    assert len(np.unique(numbers[left])) == len(np.unique(numbers[right])) == 1


def test_regions_that_say_nothing_do_not_separate():
    mask = boxes((10, 10, 40, 70))[0]
    nested = boxes((10, 10, 40, 68), (12, 12, 30, 30))  # a part inside the whole
    beyond = boxes((0, 0, 60, 40), (0, 40, 60, 80))  # half of each lies outside
    little = boxes((10, 10, 20, 20), (30, 50, 40, 70))  # they leave most of it
    for regions in (nested, beyond, little, boxes((10, 10, 40, 40))):
        assert separated(mask, regions).max() == 1


def test_specks_are_left_out_unless_there_is_nothing_else():
    mask = boxes((5, 5, 30, 30), (50, 70, 51, 71)).any(0)
    assert separated(mask, least=0.01).max() == 1
    assert separated(boxes((50, 70, 51, 71))[0], least=0.01).max() == 1
    assert separated(np.zeros((5, 5), bool)).max() == 0
