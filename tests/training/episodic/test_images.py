"""Images for episodes, and the three rules for pixels of novel classes."""

import numpy as np
import pytest

from repri.data.datasets.index import class_index
from repri.data.datasets.open import open_dataset
from repri.training.episodic.images import base_images, hide_others

NOVEL = (1, 2)
BASE = (3, 4, 5, 6, 7, 8)


@pytest.fixture
def dataset(values, scenes):
    return open_dataset(str(scenes), None, "train")


def test_novel_pixels_are_ignored_or_background(dataset):
    changed = 0
    for sample in dataset.samples:
        mask = dataset.mask(sample.id)
        novel = np.isin(mask, NOVEL)
        for rule, value in (("ignore", 255), ("drop", 255), ("background", 0)):
            hidden = hide_others(dataset, BASE, rule).mask(sample.id)
            assert (hidden[novel] == value).all()
            assert (hidden[~novel] == mask[~novel]).all()
        changed += int(novel.any())
    assert changed > 3


def test_drop_leaves_out_every_image_with_a_novel_pixel(dataset):
    index = class_index(dataset, 200)
    kept, all_of_them = (base_images(dataset, BASE, 200, rule) for rule in ("drop", "ignore"))
    names = [sample.id for sample in kept.dataset.samples]
    pure = [s.id for s in all_of_them.dataset.samples if not np.isin(dataset.mask(s.id), NOVEL).any()]
    assert names == pure
    assert 0 < len(pure) < len(all_of_them.dataset)
    for row, name in enumerate(names):
        assert (kept.index.counts[row] == index.counts[dataset.position[name]]).all()
    assert len(base_images(dataset, BASE, 200, "ignore", most=5).dataset) == 5


def test_drop_may_leave_nothing(dataset, monkeypatch):
    fuller = class_index(dataset, 200)._replace(counts=class_index(dataset, 200).counts + 200)
    monkeypatch.setattr("repri.training.episodic.images.class_index", lambda *args, **more: fuller)
    with pytest.raises(ValueError, match="drop leaves none: set ignore"):
        base_images(dataset, BASE, 200, "drop")
