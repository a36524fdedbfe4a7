"""Parts of the support that are segmented by the rest."""

import numpy as np
import pytest

from repri.segmenter.experts.heldout import FOLDS, OF_FOLD, held_out
from tests.make import noise, square


@pytest.mark.parametrize("mask", [square(), square().T])
def test_one_image_is_cut_through_the_middle_of_the_object(mask):
    image = noise(*mask.shape)
    parts = list(held_out([image], [mask], 1))
    assert [part.fold for part in parts] == [0, 1]
    first, second = (part.maps[0] for part in parts)
    assert ((first == 255) ^ (second == 255)).all()
    objects = [(known == 1).sum() for known in (first, second)]
    assert sum(objects) == mask.sum()
    assert abs(objects[0] - objects[1]) <= 40
    for part in parts:
        assert part.place is None
        assert part.truth.shape == part.image.shape[:2]
        assert (part.truth == 1).any()


@pytest.mark.parametrize("count", [2, 3, 5, 12])
def test_an_image_is_never_known_when_it_is_segmented(count):
    images, maps = [noise(seed=i) for i in range(count)], [square() for _ in range(count)]
    parts = list(held_out(images, maps, 1))
    assert all(part.place not in part.known for part in parts)
    assert len({part.fold for part in parts}) == min(count, FOLDS)
    assert len(parts) == min(count, FOLDS * OF_FOLD)
    for part in parts:
        assert len(part.maps) == len(part.known)
        assert np.array_equal(part.image, images[part.place])


def test_classes_that_the_rest_does_not_show_are_left_out():
    both, one = square() + 2 * square(left=37), square(left=37) * 2
    parts = {part.place: part for part in held_out([noise(), noise(seed=1)], [both, one], 2)}
    assert parts[0].classes == (2,)
    assert set(np.unique(parts[0].truth)) == {0, 1, 255}
    assert np.array_equal(parts[0].truth == 1, both == 2)
    assert np.array_equal(parts[0].truth == 255, both == 1)
    assert parts[1].classes == (1, 2)


def test_a_support_without_background_has_nothing_to_compare():
    everywhere = np.ones((40, 60), np.uint8)
    assert list(held_out([noise(), noise(seed=1)], [everywhere, everywhere], 1)) == []
