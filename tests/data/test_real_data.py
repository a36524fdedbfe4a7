"""On real images: PASCAL-5i and a sample of COCO."""

import json

import numpy as np
import pytest

from repri.data.datasets.index import MIN_PIXELS, class_index, class_lists
from repri.data.datasets.open import open_dataset
from repri.data.datasets.verify import EXPECTED, verify
from repri.data.fetch.get import _coco_ids
from repri.data.io.coco import draw_mask, read_annotations
from repri.data.io.images import read_mask
from repri.data.tasks.tasks import sample_tasks


@pytest.fixture(scope="module")
def pascal(test_data):
    root = test_data / "data" / "voc5i"
    return {split: open_dataset("pascal", root, split) for split in ("train", "val")}


@pytest.mark.parametrize("split", ["train", "val"])
def test_class_counts_are_the_expected_ones(pascal, test_data, split):
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


@pytest.mark.parametrize("fold", range(4))
@pytest.mark.parametrize("shots", [1, 10])
def test_a_thousand_tasks_obey_the_rules(pascal, fold, shots):
    dataset = pascal["val"]
    index = class_index(dataset)
    lists = {id: set(names) for id, names in class_lists(dataset, index).items()}
    novel = dataset.novel(fold)
    queries = [s.id for s in dataset.samples if any(s.id in lists[id] for id in novel)]
    drawn = sample_tasks(dataset, novel, shots, 1000, 1, seed=fold, index=index).runs[0]
    for i, task in enumerate(drawn):
        assert task.class_id in novel
        assert task.query == queries[i % len(queries)]
        assert index.of(task.class_id)[dataset.position[task.query]] > 0
        assert len(set(task.support)) == shots
        assert task.query not in task.support
        assert lists[task.class_id].issuperset(task.support)
    assert {task.class_id for task in drawn} == set(novel)
    assert all(dataset.mask(task.query).max() > 0 for task in drawn[:20])


def test_coco_masks_are_regenerated(test_data):
    root = test_data / "data" / "coco_micro"
    annotations = read_annotations(root / "instances_micro.json")
    ids = _coco_ids(annotations, root)
    assert list(ids.values()) == list(range(1, 81))  # by name is by order of category ids
    same = pixels = 0
    for image in annotations.images:
        mask = draw_mask(image, ids)
        same += (mask == read_mask(root / "masks" / f"{image.stem}.png")).sum()
        pixels += mask.size
    assert same / pixels >= 0.995
    first = annotations.images[0]
    assert (draw_mask(first, ids, "official") != 255).all()


def test_a_small_real_set_is_usable(test_data):
    for split in ("train", "val"):
        found = verify(open_dataset("pascal", test_data / "data" / "fixture_voc", split))
        assert found.problems == ()
        assert not found.standard
        assert np.all([found.dataset.mask(s.id).max() > 0 for s in found.dataset.samples[:5]])
