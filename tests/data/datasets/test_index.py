"""Counts of classes: exact, kept in the cache, and renewed when a mask changes."""

import json

import numpy as np
import pytest

from repri.data.datasets.index import MIN_PIXELS, class_index, class_lists
from repri.data.datasets.open import open_dataset
from repri.data.datasets.verify import EXPECTED
from repri.runtime.errors import RepriError
from tests.data.make import block, save_ids, tiny_pascal


def test_counts_are_exact_cached_and_renewed(tmp_path, own_cache, monkeypatch):
    root = tiny_pascal(tmp_path / "data", per_class=1)
    dataset = open_dataset("pascal", root)
    index = class_index(dataset, workers=2)
    assert index.counts.tolist() == (np.eye(20, dtype=int) * 2048).tolist()
    with monkeypatch.context() as patch:
        patch.setattr("repri.data.datasets.index._count", lambda *_: pytest.fail("counted again"))
        assert (class_index(dataset).counts == index.counts).all()
    kept = next((own_cache / "index").iterdir())
    whole = kept.read_bytes()
    for damaged in (
        b"damaged",
        b"",
        whole[:-8],
        whole + whole,
        *(_flipped(whole, at) for at in (3, 40, len(whole) - 1)),
    ):
        kept.write_bytes(damaged)
        assert (class_index(dataset).counts == index.counts).all()
        assert kept.read_bytes() == whole  # written again
    save_ids(root / "SegmentationClassAug" / "03_0.png", block(64, 64, 3, 77))
    assert class_index(dataset).of(3)[2] == 77


def _flipped(content, at):
    """The content with one bit changed."""
    return content[:at] + bytes([content[at] ^ 4]) + content[at + 1 :]


def test_lists_of_images_with_enough_pixels(tmp_path):
    dataset = open_dataset("pascal", tiny_pascal(tmp_path, classes=(1, 2)))
    assert class_lists(dataset, class_index(dataset))[2] == ("02_0", "02_1", "02_2")
    assert class_lists(dataset, class_index(dataset, 2050))[2] == ("02_2",)
    assert class_lists(dataset, class_index(dataset))[3] == ()


def test_masks_that_cannot_be_counted_are_named(tmp_path):
    root = tiny_pascal(tmp_path, per_class=1)
    save_ids(root / "SegmentationClassAug" / "03_0.png", block(64, 64, 33, 77))
    with pytest.raises(RepriError, match=r"03_0.png holds the class id 33, which pascal does not have"):
        class_index(open_dataset("pascal", root))
    (root / "SegmentationClassAug" / "03_0.png").unlink()
    with pytest.raises(RepriError, match=r"03_0.png, the mask of 03_0.jpg, does not exist"):
        class_index(open_dataset("pascal", root))


@pytest.mark.parametrize("split", ["train", "val"])
def test_counts_of_the_real_pascal_are_the_expected_ones(pascal, split):
    dataset = pascal[split]
    index = class_index(dataset)
    lists = class_lists(dataset, index)
    listed = json.loads((dataset.root / f"lists/pascal/{split}_class_files_origres.json").read_text())
    assert {str(id): sorted(names) for id, names in lists.items()} == {id: sorted(v) for id, v in listed.items()}
    images, counts = EXPECTED["pascal", split]
    assert len(dataset) == images
    assert tuple(map(len, lists.values())) == counts
    # An independent look: the counts at the reduced size, with the filter reduced alike, agree but for a handful.
    shrink = (416 / 500) ** 2 if split == "val" else (304 / 500) ** 2
    differ = total = 0
    for id, names in listed.items():
        enough = index.of(int(id)) >= MIN_PIXELS * shrink
        mine = {sample.id for sample, is_enough in zip(dataset.samples, enough, strict=True) if is_enough}
        differ += len(mine ^ set(names))
        total += len(names)
    assert differ < 0.004 * total
