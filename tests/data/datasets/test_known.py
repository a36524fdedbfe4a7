"""PASCAL-5i and COCO-20i in their folders; ``tests/data/fetch`` makes the real ones."""

import json

import pytest

from repri.data.datasets.index import class_index, class_lists
from repri.data.datasets.known import open_known
from repri.runtime.errors import RepriError
from tests.data.make import save_ids, save_image, tiny_pascal


def test_pascal(tmp_path):
    dataset = open_known("pascal", tiny_pascal(tmp_path), "train")
    assert (dataset.name, dataset.split, len(dataset)) == ("pascal", "train", 60)
    assert (dataset.classes[8], dataset.folds[0]) == ("cat", (1, 2, 3, 4, 5))


def test_coco_has_lists_for_both_kinds_of_masks(tmp_path):
    for folder, masks, id in (("coco", "masks", 1), ("coco-official", "masks-official", 2)):
        path = tmp_path / "lists" / folder / "val.txt"
        path.parent.mkdir(parents=True)
        path.write_text(f"val2014/a.jpg {masks}/val2014/a.png\n")
        save_ids(tmp_path / masks / "val2014" / "a.png", [[id, id], [id, id]])
    save_image(tmp_path / "val2014" / "a.jpg", 2, 2)
    assert (open_known("coco", tmp_path, "val").mask("a") == 1).all()
    assert (open_known("coco", tmp_path, "val", first_polygon_only=True).mask("a") == 2).all()
    assert open_known("coco", tmp_path, "val").folds[1][:3] == (2, 6, 10)


def test_wrong_roots_are_named(tmp_path):
    with pytest.raises(RepriError, match=r"there is no folder .*nowhere: make it with `repri data get pascal"):
        open_known("pascal", tmp_path / "nowhere", "val")
    with pytest.raises(RepriError, match=r"not laid out as pascal: .*val.txt is missing"):
        open_known("pascal", tmp_path, "val")
    with pytest.raises(RepriError, match="splits train and val, not 'test'"):
        open_known("pascal", tmp_path, "test")


def test_a_reduced_copy_brings_its_own_lists(tmp_path):
    """They replace the counts, but only for the number of pixels that they were made with."""
    root = tiny_pascal(tmp_path, classes=(1, 2))
    path = root / "lists" / "pascal" / "val_class_files_origres.json"
    path.write_text(json.dumps({"1": ["01_2", "01_0"], "2": []}))
    dataset = open_known("pascal", root, "val")
    assert class_lists(dataset, class_index(dataset))[1] == ("01_0", "01_2")
    assert class_lists(dataset, class_index(dataset, 2049))[1] == ("01_1", "01_2")
    path.write_text("[]")
    with pytest.raises(RepriError, match=r"origres.json is not a JSON mapping of class ids to image names"):
        open_known("pascal", root, "val")
