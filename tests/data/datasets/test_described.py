"""Data sets that a YAML file describes."""

import json

import numpy as np
import pytest
import yaml
from PIL import Image

from repri.data.datasets.index import class_index, class_lists
from repri.data.datasets.open import open_dataset, splits_of
from tests.data.make import block, save_ids, save_image


def described(tmp_path, **settings):
    """Write the YAML file."""
    path = tmp_path / "data.yaml"
    path.write_text(yaml.safe_dump({"name": "mine", "classes": ["cell", "wall"], **settings}))
    return path


def test_folders_lists_and_class_folders(tmp_path):
    for n, id in enumerate((1, 2, 1)):
        save_image(tmp_path / "images" / f"{n}.jpg", seed=n)
        save_ids(tmp_path / "masks" / f"{n}.png", block(40, 60, id, 500))
    (tmp_path / "list.txt").write_text("images/0.jpg masks/0.png\n")
    for name in ("cell", "wall"):
        for n in range(2):
            save_image(tmp_path / "by_class" / name / f"{n}.jpg")
            save_ids(tmp_path / "by_class" / name / f"{n}.png", block(40, 60, 255, 300))
    splits = {
        "train": {"images": "images", "masks": "masks"},
        "val": "list.txt",
        "all": {"class_folders": "by_class"},
    }
    path = described(tmp_path, splits=splits, folds=2)
    assert set(splits_of(path)) == {"train", "val", "all"}
    assert len(open_dataset(path, split="train")) == 3
    assert len(open_dataset(path, split="val")) == 1
    folders = open_dataset(path, split="all")
    assert (folders.mask("wall/1") == 2).sum() == 300  # two-level masks, the class by the folder
    assert folders.folds == ((1,), (2,))
    assert class_lists(folders, class_index(folders, 100)) == {1: ("cell/0", "cell/1"), 2: ("wall/0", "wall/1")}


def test_colours_and_named_folds(tmp_path):
    save_image(tmp_path / "images" / "0.png")
    rgb = np.zeros((40, 60, 3), np.uint8)
    rgb[:20] = (0, 255, 0)
    (tmp_path / "masks").mkdir()
    Image.fromarray(rgb).save(tmp_path / "masks" / "0.png")
    path = described(
        tmp_path,
        splits={"val": {"images": "images", "masks": "masks"}},
        masks="colour",
        colours={"wall": [0, 255, 0]},
        folds=[["wall"], ["cell"]],
    )
    dataset = open_dataset(path)
    assert np.unique(dataset.mask("0")).tolist() == [0, 2]
    assert dataset.folds == ((2,), (1,))


def test_coco_annotations_with_many_classes(tmp_path):
    """Masks are drawn when they are asked for; 255 is never a class, so the 255th has the id 256."""
    save_image(tmp_path / "a.jpg")
    classes = [f"c{n}" for n in range(300)]
    content = {
        "images": [{"id": 7, "file_name": "a.jpg", "height": 40, "width": 60}],
        "annotations": [
            {"id": 1, "image_id": 7, "category_id": 254, "iscrowd": 0, "segmentation": [[0, 0, 30, 0, 30, 40, 0, 40]]}
        ],
        "categories": [{"id": n, "name": name} for n, name in enumerate(classes)],
    }
    (tmp_path / "a.json").write_text(json.dumps(content))
    path = described(
        tmp_path, classes=classes, splits={"val": {"coco": "a.json", "images": "."}}, folds={"interleaved": 3}
    )
    dataset = open_dataset(path)
    assert np.unique(dataset.mask("a")).tolist() == [0, 256]
    assert dataset.classes[256] == "c254"
    assert class_index(dataset).of(256).tolist() == [1200]
    assert len(dataset.folds) == 3
    assert dataset.pair("a")[0].shape == (40, 60, 3)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"split": {}}, "unknown setting 'split', did you mean 'splits'"),
        ({"splits": {"val": {"image": "x"}}}, "a split is a list file"),
        ({"splits": {"val": "l.txt"}, "folds": 5}, "5 folds cannot be made of 2 classes"),
        ({"splits": {"val": "l.txt"}, "folds": {"random": 2}}, "folds is a number, {interleaved: number} or lists"),
        ({"splits": {"val": "l.txt"}, "folds": [["cel"]]}, "unknown class 'cel', did you mean 'cell'"),
        ({"splits": {"val": "l.txt"}, "folds": [["cell"], ["cell"]]}, "no class may be in two folds"),
        ({"splits": {"val": "l.txt"}, "classes": {255: "x"}}, "255 cannot be a class id"),
        ({"splits": {"val": "l.txt"}, "classes": ["x", "x"]}, "a class is named twice"),
        (
            {"splits": {"val": "l.txt"}, "masks": "pink"},
            "must be index or binary or auto or colour, got 'pink'",
        ),
        (
            {"splits": {"val": "l.txt"}, "masks": "colour", "colours": {"cel": [0, 0, 0]}},
            "colours name an unknown class 'cel', did you mean 'cell'",
        ),
        ({"splits": {"val": "l.txt"}, "root": "gone"}, "there is no folder .*gone"),
        ({"splits": {"test": "l.txt"}}, "has the splits test, not 'val'"),
        ({"splits": {}}, "names no split: give at least one"),
        ({}, "the setting 'splits' is missing"),
    ],
)
def test_mistakes_are_named(tmp_path, settings, message):
    (tmp_path / "l.txt").write_text("a b\n")
    path = described(tmp_path, **settings)
    with pytest.raises(ValueError, match=message) as caught:
        open_dataset(path)
    assert "\n" not in str(caught.value)
    assert "data.yaml" in str(caught.value)


def test_a_file_that_is_not_yaml(tmp_path):
    (tmp_path / "x.yaml").write_text("a: [")
    with pytest.raises(ValueError, match=r"x.yaml is not YAML"):
        open_dataset(tmp_path / "x.yaml")
    with pytest.raises(ValueError, match=r"cannot read .*none.yaml"):
        open_dataset(tmp_path / "none.yaml")
