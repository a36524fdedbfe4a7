"""A data set gives images and masks by id."""

import numpy as np
import pytest

from repri.data.datasets.open import open_dataset
from repri.runtime.errors import RepriError
from tests.data.make import save_ids, tiny_pascal


@pytest.fixture
def dataset(tmp_path):
    return open_dataset("pascal", tiny_pascal(tmp_path, per_class=1))


def test_images_and_masks_by_id(dataset):
    image, mask = dataset.pair("07_0")
    assert image.shape == (64, 64, 3)
    assert (mask == 7).sum() == 2048
    assert (dataset.mask("07_0") == mask).all()
    assert (dataset.image("07_0") == image).all()
    assert dataset.position["02_0"] == 1
    with pytest.raises(RepriError, match="pascal val has no image '21_0'"):
        dataset.image("21_0")


def test_classes_of_a_fold(dataset):
    assert dataset.novel(1) == (6, 7, 8, 9, 10)
    with pytest.raises(RepriError, match="pascal has the folds 0 to 3, not 4"):
        dataset.novel(4)


def test_masks_of_another_size_are_refused(dataset):
    save_ids(dataset["02_0"].mask, np.zeros((64, 65)))
    for read in (dataset.mask, dataset.pair):
        with pytest.raises(RepriError, match=r"02_0.png is 65×64 and its image .*02_0.jpg is 64×64"):
            read("02_0")
    assert dataset.annotation("02_0").shape == (64, 65)
