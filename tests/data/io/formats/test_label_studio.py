"""Label Studio's exports, with every kind of region."""

import json

import numpy as np
import pytest
from PIL import Image

from repri.data.io.formats import read_annotated
from repri.runtime.errors import RepriError
from tests.data.make import make_image

from .test_brush import CODE

SIZE = {"original_width": 7, "original_height": 5}


def export(path, results, image="cat 1.png"):
    """Write an export with one finished task."""
    path.write_text(json.dumps([{"data": {"image": image}, "annotations": [{"result": results}]}]))
    return path


def test_an_export(tmp_path):
    Image.fromarray(make_image(5, 7)).save(tmp_path / "cat 1.png")
    corner = [[0, 0], [20, 0], [20, 30], [0, 30]]
    results = [
        SIZE | {"type": "brushlabels", "value": {"format": "rle", "rle": CODE, "brushlabels": ["cat"]}},
        SIZE | {"type": "polygonlabels", "value": {"points": corner, "polygonlabels": ["dog"]}},
        SIZE | {"type": "choices", "value": {"choices": ["good"]}},
    ]
    tasks = [
        {"data": {"image": "/data/upload/3/0a1b2c3d-cat%201.png"}, "annotations": [{"result": results}]},
        {"data": {"image": "skipped.png"}, "annotations": [{"was_cancelled": True, "result": results}]},
        {"data": {"image": "untouched.png"}, "annotations": []},
    ]
    (tmp_path / "export.json").write_text(json.dumps(tasks))
    annotations = read_annotated(tmp_path / "export.json")
    assert len(annotations) == 1
    assert annotations.images[0].image == tmp_path / "cat 1.png"
    mask = annotations.images[0].ids(annotations.ids)
    assert (mask[1:4, 2:6] == 1).all()
    assert (mask[:2, :2] == 2).all()


def test_ellipses_rectangles_and_key_points(tmp_path):
    size = {"original_width": 100, "original_height": 50}
    round_one = {"x": 50, "y": 50, "radiusX": 10, "radiusY": 40, "ellipselabels": ["round"]}
    flat = {"x": 80, "y": 10, "width": 10, "height": 20, "rectanglelabels": ["flat"]}
    point = {"x": 5, "y": 5, "width": 1, "keypointlabels": ["flat"]}
    results = [
        size | {"type": "ellipselabels", "value": round_one},
        size | {"type": "rectanglelabels", "value": flat},
        size | {"type": "keypointlabels", "value": point},
    ]
    [item] = read_annotated(export(tmp_path / "x.json", results))
    assert [shape.kind for shape in item.shapes] == ["polygon", "box", "scribble"]
    assert item.shapes[0].region(50, 100).sum() == pytest.approx(np.pi * 10 * 20, rel=0.1)
    assert item.shapes[1].points == ((80, 5), (90, 15))
    assert item.shapes[2].points == ((5, 2.5),)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"rle": CODE}, "a region has no label"),
        ({"rle": CODE, "brushlabels": ["cat"], "rotation": 5}, "the brushlabels region of 'cat' is rotated"),
        ({"rle": CODE[:9], "brushlabels": ["cat"]}, "its RLE breaks off"),
        ({"brushlabels": ["cat"]}, "the brushlabels region of 'cat' has no place"),
    ],
)
def test_regions_that_cannot_be_read(tmp_path, value, message):
    path = export(tmp_path / "x.json", [SIZE | {"type": "brushlabels", "value": value}])
    with pytest.raises(RepriError, match=f"x.json, task 0: cannot be read .*{message}"):
        read_annotated(path)
