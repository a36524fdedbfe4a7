"""Annotated images in any of the known formats as a support."""

import json

import numpy as np
import pytest
from PIL import Image

from repri import RepriError, Segmenter
from repri.data import read_annotated
from repri.segmenter.shots import completed, read_support
from tests.make import noise


def labelme(folder, name, *shapes):
    """A LabelMe file of shapes (label, kind, points) on an image of 64×64."""
    folder.mkdir(exist_ok=True)
    Image.fromarray(noise(64, 64)).save(folder / f"{name}.png")
    entries = [{"label": label, "points": points, "shape_type": kind} for label, kind, points in shapes]
    content = {"shapes": entries, "imagePath": f"{name}.png", "imageHeight": 64, "imageWidth": 64}
    (folder / f"{name}.json").write_text(json.dumps(content))
    return folder


def area(label, left, top, side=20):
    corners = [[left, top], [left + side, top], [left + side, top + side], [left, top + side]]
    return label, "polygon", corners


def test_images_that_show_a_class_are_read(tmp_path):
    labelme(tmp_path / "s", "x", area("cat", 5, 5), area("dog", 30, 30))
    labelme(tmp_path / "s", "y", area("dog", 10, 10))
    shots = read_support(tmp_path / "s")
    assert shots.classes == ("cat", "dog")
    assert [path.name for path in shots.paths] == ["x.png", "y.png"]
    assert [set(np.unique(mask)) for mask in shots.maps] == [{0, 1, 2}, {0, 2}]
    assert all(image.shape == (64, 64, 3) for image in shots.images)
    cats = read_support(tmp_path / "s", classes=("cat",))
    assert cats.classes == ("cat",)
    assert [path.name for path in cats.paths] == ["x.png"]
    assert set(np.unique(cats.maps[0])) == {0, 1}


def test_boxes_are_for_one_class(tmp_path):
    labelme(tmp_path / "s", "x", ("cat", "rectangle", [[5, 5], [30, 30]]), area("dog", 35, 35))
    with pytest.raises(RepriError, match=r"x\.png has boxes, which work for one class only: choose it with --classes"):
        read_support(tmp_path / "s")
    one = read_support(tmp_path / "s", classes=("cat",))
    assert 0 < one.maps[0][10, 10] <= 1
    assert one.maps[0][50, 20] == 0


def test_mistakes_are_named(tmp_path):
    labelme(tmp_path / "s", "x", area("cat", 5, 5))
    with pytest.raises(RepriError, match=r"s has no class 'bird'; it has cat"):
        read_support(tmp_path / "s", classes=("bird",))
    with pytest.raises(RepriError, match="The classes must have different names, got cat, cat"):
        read_support(tmp_path / "s", classes=("cat", "cat"))


def test_boxes_and_scribbles_become_regions(pair, extractor, tmp_path):
    """The region of a box lies inside it; what was drawn later stays on top; a scribble of the background goes."""
    image, mask = pair[0]
    rows, columns = np.nonzero(mask.any(1))[0], np.nonzero(mask.any(0))[0]
    box = [[float(columns[0]), float(rows[0])], [float(columns[-1]) + 1, float(rows[-1]) + 1]]
    tag = area("tag", float(columns.mean()), float(rows.mean()), 10)
    folder = labelme(
        tmp_path / "s",
        "x",
        ("thing", "rectangle", box),
        tag,
        ("background", "linestrip", [[2.0, 2.0], [200.0, 2.0]]),
    )
    content = json.loads((folder / "x.json").read_text()) | {"imageHeight": 256, "imageWidth": 256}
    (folder / "x.json").write_text(json.dumps(content))
    Image.fromarray(image).save(folder / "x.png")
    (item,) = completed(read_annotated(folder), Segmenter(extractor, refine="none", auto=False))
    assert {shape.kind for shape in item.shapes} == {"mask", "polygon"}
    assert [shape.label for shape in item.shapes] == ["thing", "tag"]
    region = item.shapes[0].region(256, 256)
    assert (region & (mask == 1)).sum() / (region | (mask == 1)).sum() > 0.6
    outside = np.ones((256, 256), bool)
    outside[int(box[0][1]) : int(box[1][1]) + 1, int(box[0][0]) : int(box[1][0]) + 1] = False
    assert not (region & outside).any()


def test_exact_annotations_stay_as_they_are(extractor, tmp_path):
    annotations = read_annotated(labelme(tmp_path / "s", "x", area("cat", 5, 5)))
    (item,) = completed(annotations, Segmenter(extractor, auto=False))
    assert item == next(iter(annotations))
