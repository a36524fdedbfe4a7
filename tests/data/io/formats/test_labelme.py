"""LabelMe files, with every kind of shape."""

import base64
import io
import json

import numpy as np
import pytest
from PIL import Image

from repri.data.io.formats import read_annotated, write_annotated
from repri.runtime.errors import RepriError
from tests.data.make import save_image

from .make import polygon, save_labelme


def png(height, width):
    """A filled PNG in base64."""
    patch = io.BytesIO()
    Image.fromarray(np.full((height, width), 255, np.uint8)).save(patch, "PNG")
    return base64.b64encode(patch.getvalue()).decode()


def test_every_kind_of_shape(tmp_path):
    save_image(tmp_path / "a.jpg")
    shapes = [
        {"label": "cat", "points": [[5, 5], [15, 5], [15, 15], [5, 15]], "shape_type": "polygon"},
        {"label": "dog", "points": [[30, 20], [33, 20]], "shape_type": "circle"},
        {"label": "dog", "points": [[40, 2], [45, 5]], "shape_type": "mask", "mask": png(4, 6)},
        {"label": "__ignore__", "points": [[0, 35], [60, 35], [60, 40], [0, 40]]},
    ]
    content = {"imagePath": "a.jpg", "imageHeight": None, "imageWidth": None, "imageData": None, "shapes": shapes}
    (tmp_path / "a.json").write_text(json.dumps(content))
    annotations = read_annotated(tmp_path / "a.json")
    assert annotations.classes == ("cat", "dog")
    mask = annotations.images[0].ids(annotations.ids)
    assert mask.shape == (40, 60)
    assert (mask[5:16, 5:16] == 1).all()
    assert mask[20, 30] == 2
    assert (mask[2:6, 40:46] == 2).all()
    assert (mask[36:] == 255).all()


def test_shapes_that_lie_outside_the_image(tmp_path):
    corner = {"label": "a", "points": [[-5, -5], [4, 4]], "shape_type": "mask", "mask": png(10, 10)}
    annotations = read_annotated(save_labelme(tmp_path / "a.json", [corner]))
    assert annotations.images[0].ids(annotations.ids).sum() == 25
    outside = [{"label": "a", "points": [[70, 50], [90, 60]], "shape_type": "rectangle"}, polygon("a", 1, 1, 5, 5)]
    annotations = read_annotated(save_labelme(tmp_path / "b.json", outside))
    write_annotated(annotations, tmp_path / "c.json", "coco")
    assert len(read_annotated(tmp_path / "c.json").images[0].shapes) == 1


def test_a_region_of_one_pixel_is_a_polygon_that_labelme_opens(tmp_path):
    dot = {"label": "a", "points": [[7, 7], [7, 7]], "shape_type": "mask", "mask": png(1, 1)}
    annotations = read_annotated(save_labelme(tmp_path / "a.json", [dot]))
    write_annotated(annotations, tmp_path / "out", "labelme")
    [shape] = json.loads((tmp_path / "out" / "a.json").read_text())["shapes"]
    assert shape["shape_type"] == "polygon"
    assert len(shape["points"]) >= 3


@pytest.mark.parametrize(
    ("shapes", "more", "message"),
    [
        ([{"label": "a", "points": [], "shape_type": "linestrip"}], {}, "a linestrip has only 0 points"),
        ([{"label": "a", "points": [[1, 2]], "shape_type": "rectangle"}], {}, "a rectangle has only 1 points"),
        ([{"label": "a", "points": [[1, 2]], "shape_type": "cube"}], {}, "unknown shape_type 'cube'"),
        ([polygon("a", 1, 1, 9, 9)], {"imageHeight": "40"}, "must be whole numbers"),
        ([polygon("a", 1, 1, 9, 9)], {"imageHeight": 41}, r"annotates .* as 60×41 and the image is 60×40"),
        (
            [polygon("a", 1, 1, 9, 9)],
            {"imageHeight": 400000, "imageWidth": 500000},
            "500000×400000 pixels, the limit",
        ),
        ([polygon("ignore", 1, 1, 9, 9)], {}, "no object is labelled"),
    ],
)
def test_files_that_cannot_be_used(tmp_path, shapes, more, message):
    path = save_labelme(tmp_path / "a.json", shapes, **more)
    with pytest.raises(RepriError, match=message):
        write_annotated(read_annotated(path), tmp_path / "o.json", "coco")
