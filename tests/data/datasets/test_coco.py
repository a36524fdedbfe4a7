"""Splits whose masks are drawn from a COCO file."""

import json

import pytest

from repri.data.datasets.coco import open_annotations
from repri.runtime.errors import RepriError

SQUARE = [[0, 0, 30, 0, 30, 40, 0, 40]]


@pytest.fixture
def file(tmp_path):
    content = {
        "images": [
            {"id": id, "file_name": f"{folder}/a.jpg", "height": 40, "width": 60}
            for id, folder in ((3, "night"), (2, "day"), (1, "crowd"))
        ],
        "annotations": [
            {"image_id": 1, "category_id": 5, "iscrowd": 1, "segmentation": SQUARE},
            {"image_id": 2, "category_id": 5, "segmentation": SQUARE},
            {"image_id": 3, "category_id": 9, "segmentation": SQUARE},
        ],
        "categories": [{"id": 5, "name": "cat"}, {"id": 9, "name": "dog"}],
    }
    path = tmp_path / "x.json"
    path.write_text(json.dumps(content))
    return path


def test_images_with_an_object_that_is_no_crowd(file, tmp_path):
    samples, source = open_annotations(file, tmp_path, {"dog": 1, "cat": 2})
    assert [sample.id for sample in samples] == ["day/a", "night/a"]  # by the ids in the file, told apart by folder
    assert samples[0].image == tmp_path / "day" / "a.jpg"
    assert [source.draw(sample.id)[20, 10] for sample in samples] == [2, 1]


def test_other_categories_are_left_out(file, tmp_path):
    samples, source = open_annotations(file, tmp_path, {"dog": 1})
    assert [sample.id for sample in samples] == ["a"]
    _, other = open_annotations(file, tmp_path, {"dog": 2})
    assert source.fingerprint != other.fingerprint


def test_classes_that_the_file_does_not_have(file, tmp_path):
    with pytest.raises(RepriError, match=r"x.json has no category 'cow'"):
        open_annotations(file, tmp_path, {"cow": 1, "dog": 2})
    content = json.loads(file.read_text())
    file.write_text(json.dumps(content | {"annotations": []}))
    with pytest.raises(RepriError, match=r"x.json annotates no object of the given classes"):
        open_annotations(file, tmp_path, {"dog": 1})
