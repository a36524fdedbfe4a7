"""COCO's JSON as an annotation format."""

import json

import pytest

from repri.data.io.formats import coco, read_annotated
from repri.runtime.errors import RepriError
from tests.data.make import save_image

from .make import annotated, blobs


def save_coco(folder, *objects):
    """Write a COCO file of one 40×60 image with objects of the category cat."""
    save_image(folder / "a.jpg")
    content = {
        "images": [{"id": 7, "file_name": "a.jpg", "height": 40, "width": 60}],
        "annotations": [{"id": n, "image_id": 7, "category_id": 1} | entry for n, entry in enumerate(objects, 1)],
        "categories": [{"id": 1, "name": "cat"}],
    }
    (folder / "x.json").write_text(json.dumps(content))
    return folder / "x.json"


def test_polygons_are_exact_too(tmp_path):
    source = annotated(tmp_path / "source")
    coco.write(source, tmp_path / "x.json", polygons=True)
    content = json.loads((tmp_path / "x.json").read_text())
    assert isinstance(content["annotations"][0]["segmentation"], list)
    assert content["annotations"][0]["bbox"] == [8, 6, 25, 25]
    back = read_annotated(tmp_path / "x.json")
    assert (back.images[0].ids(back.ids) == blobs()).all()


def test_boxes_stay_boxes(tmp_path):
    path = save_coco(tmp_path, {"segmentation": [], "bbox": [10, 5, 20, 15]})
    [shape] = read_annotated(path).images[0].shapes
    assert (shape.kind, shape.points) == ("box", ((10, 5), (30, 20)))
    coco.write(read_annotated(path), tmp_path / "y.json")
    assert json.loads((tmp_path / "y.json").read_text())["annotations"][0]["bbox"] == [10, 5, 20, 15]


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"segmentation": {"size": [40, 60], "counts": [0, 400]}}, "do not add up to the 2400 pixels"),
        ({"segmentation": {"size": [40, 60], "counts": "04"}}, "runs do not add up to the"),
        ({"segmentation": {"size": [40, 60], "counts": [-1, 2401]}}, "runs do not add up to the"),
        ({"segmentation": {"size": [60, 40], "counts": [2400]}}, "its RLE is of a 40×60 image, this one is 60×40"),
        ({"segmentation": {"counts": [2400]}}, "neither polygons nor RLE"),
        ({"segmentation": [[[1, 2], [3, 4], [5, 6]]]}, "neither polygons nor RLE"),
        ({"segmentation": [], "bbox": ["a", 1, 2, 3]}, "an object of a.jpg cannot be read"),
        ({"category_id": 5, "segmentation": []}, "object 1 has the unlisted category 5"),
    ],
)
def test_objects_that_cannot_be_read(tmp_path, entry, message):
    path = save_coco(tmp_path, entry)
    with pytest.raises(RepriError, match=message) as caught:
        read_annotated(path)
    assert str(caught.value).startswith(str(path))
