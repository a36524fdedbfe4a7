"""Every annotation format: what comes in is what was drawn, and comes back from where it was written."""

import base64
import io
import json

import numpy as np
import pytest
from PIL import Image

from repri.data.annotations import AnnotatedImage, Annotations, Shape, box_prior, polygons_of, shapes_of
from repri.data.formats import FORMATS, detect_format, read_annotated, write_annotated
from repri.data.formats.label_studio import decode_brush, encode_brush

from .make import picture, save_picture

NAMES = {1: "cat", 2: "dog"}


def blobs(height=40, width=60):
    """A disc with a hole, a bar that touches the border, a void strip."""
    y, x = np.mgrid[:height, :width]
    mask = np.zeros((height, width), np.uint8)
    distance = np.hypot(y - 18, x - 20)
    mask[(distance < 13) & (distance > 5)] = 1
    mask[25:, 40:55] = 2
    mask[:3] = 255
    return mask


def annotated(folder):
    save_picture(folder / "images" / "a.jpg")
    save_picture(folder / "images" / "b.jpg", seed=1)
    items = [
        AnnotatedImage(folder / "images" / "a.jpg", 40, 60, shapes_of(blobs(), NAMES)),
        AnnotatedImage(folder / "images" / "b.jpg", 40, 60, shapes_of(blobs()[:, ::-1].copy(), NAMES)),
    ]
    return Annotations(("cat", "dog"), tuple(items))


@pytest.mark.parametrize("format", FORMATS)
def test_each_format_returns_what_was_written(tmp_path, format):
    source = annotated(tmp_path / "source")
    path = tmp_path / ("out.json" if format in ("coco", "label-studio") else "out")
    write_annotated(source, path, format)
    assert detect_format(path) == format
    back = read_annotated(path, images=tmp_path / "source" / "images")
    assert back.classes == source.classes
    assert [item.image.name for item in back] == ["a.jpg", "b.jpg"]
    assert all(item.image.is_file() for item in back)
    for before, after in zip(source, back, strict=True):
        same = before.ids(source.ids) == after.ids(back.ids)
        assert same.all() if format != "labelme" else same.mean() > 0.995
    write_annotated(source, path, format)  # over what is there


def test_coco_polygons_are_exact_too(tmp_path):
    from repri.data.formats import coco

    source = annotated(tmp_path / "source")
    coco.write(source, tmp_path / "x.json", polygons=True)
    content = json.loads((tmp_path / "x.json").read_text())
    assert isinstance(content["annotations"][0]["segmentation"], list)
    assert content["annotations"][0]["bbox"] == [8, 6, 25, 25]
    back = read_annotated(tmp_path / "x.json")
    assert (back.images[0].ids(back.ids) == blobs()).all()


@pytest.mark.parametrize("seed", range(5))
def test_outlines_of_anything(seed):
    """Noise: many parts, holes in holes, single pixels."""
    from repri.data.coco import decode

    region = np.random.default_rng(seed).random((20, 30)) < 0.5
    flat = [[v for point in ring for v in point] for ring in polygons_of(region)]
    assert (decode(flat, 20, 30) == region).mean() > 0.97


def test_a_labelme_file(tmp_path):
    save_picture(tmp_path / "a.jpg")
    patch = io.BytesIO()
    Image.fromarray(np.full((4, 6), 255, np.uint8)).save(patch, "PNG")
    png = base64.b64encode(patch.getvalue()).decode()
    shapes = [
        {"label": "cat", "points": [[5, 5], [15, 5], [15, 15], [5, 15]], "shape_type": "polygon"},
        {"label": "dog", "points": [[30, 20], [33, 20]], "shape_type": "circle"},
        {"label": "dog", "points": [[40, 2], [45, 5]], "shape_type": "mask", "mask": png},
        {"label": "__ignore__", "points": [[0, 35], [60, 35], [60, 40], [0, 40]]},
    ]
    content = {"imagePath": "a.jpg", "imageHeight": None, "imageWidth": None, "imageData": None, "shapes": shapes}
    (tmp_path / "a.json").write_text(json.dumps(content))
    found = read_annotated(tmp_path / "a.json")
    assert found.classes == ("cat", "dog")
    mask = found.images[0].ids(found.ids)
    assert mask.shape == (40, 60)
    assert (mask[5:16, 5:16] == 1).all()
    assert mask[20, 30] == 2
    assert (mask[2:6, 40:46] == 2).all()
    assert (mask[36:] == 255).all()


def test_cvat_masks_by_their_label_map(tmp_path):
    """Colours decide, not the order of a palette."""
    (tmp_path / "SegmentationClass").mkdir()
    lines = ["# label:color_rgb:parts:actions", "background:0,0,0::", "cat:250,50,83::", "dog:61,61,245::"]
    (tmp_path / "labelmap.txt").write_text("\n".join(lines) + "\n")
    rgb = np.zeros((40, 60, 3), np.uint8)
    rgb[:10], rgb[20:30] = (61, 61, 245), (250, 50, 83)
    Image.fromarray(rgb).save(tmp_path / "SegmentationClass" / "a.png")
    save_picture(tmp_path / "photos" / "a.png")
    found = read_annotated(tmp_path, images=tmp_path / "photos")
    mask = found.images[0].ids(found.ids)
    assert found.classes == ("cat", "dog")
    assert (mask[:10] == 2).all()
    assert (mask[20:30] == 1).all()
    assert found.images[0].image.is_file()
    (tmp_path / "labelmap.txt").write_text("cat 250,50,83\n")
    with pytest.raises(ValueError, match=r"labelmap.txt, line 1: expected"):
        read_annotated(tmp_path)


def test_a_label_studio_export(tmp_path):
    # Written by label_studio_sdk.converter.brush.mask2rle for rows 1-3, columns 2-5 of 5×7 pixels.
    code = [0, 0, 0, 140, 57, 27, 254, 35, 0, 191, 255, 108, 2, 255, 253, 176, 11, 255, 248, 124, 0]
    region = np.zeros((5, 7), bool)
    region[1:4, 2:6] = True
    assert (decode_brush(code, 5, 7) == region).all()
    Image.fromarray(picture(5, 7)).save(tmp_path / "cat 1.png")
    common = {"original_width": 7, "original_height": 5}
    corner = [[0, 0], [20, 0], [20, 30], [0, 30]]
    results = [
        common | {"type": "brushlabels", "value": {"format": "rle", "rle": code, "brushlabels": ["cat"]}},
        common | {"type": "polygonlabels", "value": {"points": corner, "polygonlabels": ["dog"]}},
        common | {"type": "choices", "value": {"choices": ["good"]}},
    ]
    tasks = [
        {"data": {"image": "/data/upload/3/0a1b2c3d-cat%201.png"}, "annotations": [{"result": results}]},
        {"data": {"image": "skipped.png"}, "annotations": [{"was_cancelled": True, "result": results}]},
        {"data": {"image": "untouched.png"}, "annotations": []},
    ]
    (tmp_path / "export.json").write_text(json.dumps(tasks))
    found = read_annotated(tmp_path / "export.json")
    assert len(found) == 1
    assert found.images[0].image == tmp_path / "cat 1.png"
    mask = found.images[0].ids(found.ids)
    assert (mask[1:4, 2:6] == 1).all()
    assert (mask[:2, :2] == 2).all()


@pytest.mark.parametrize("seed", range(3))
def test_brushes_of_any_region(seed):
    region = np.random.default_rng(seed).random((33, 47)) < 0.3
    assert (decode_brush(encode_brush(region), 33, 47) == region).all()
    large = np.zeros((300, 400), bool)
    large[50:] = True
    assert (decode_brush(encode_brush(large), 300, 400) == large).all()
    with pytest.raises(ValueError, match="breaks off"):
        decode_brush(encode_brush(region)[:20], 33, 47)
    with pytest.raises(ValueError, match="has 6204 values, the image 6208"):
        decode_brush(encode_brush(region), 1, 1552)


def test_boxes_are_soft_inside_and_sure_outside():
    item = AnnotatedImage(None, 40, 60, (Shape("cat", "box", ((50, 30), (10, 10))),))
    soft = item.support("cat")
    outside = np.ones((40, 60), bool)
    outside[10:30, 10:50] = False
    assert (soft[outside] == 0).all()
    assert soft[20, 30] == pytest.approx(0.875, abs=0.01)
    assert 0 < soft[10, 10] < 0.2
    assert soft[10:30, 10:50].mean() == pytest.approx(0.6, abs=0.01)
    assert (soft == soft[::-1, ::-1]).all()
    assert item.ids({"cat": 1}).sum() == 800
    assert box_prior(np.zeros(1), np.zeros(1)) == 0.875


def test_scribbles_leave_the_rest_unlabelled():
    strokes = (
        Shape("cat", "scribble", ((10, 10), (40, 10)), width=3),
        Shape("background", "scribble", ((5, 35), (50, 35))),
    )
    item = AnnotatedImage(None, 40, 60, strokes)
    soft = item.support("cat")
    assert set(np.unique(soft)) == {0, 1, 255}
    assert soft[10, 20] == 1
    assert soft[35, 20] == 0
    assert (soft == 255).mean() > 0.7
    assert item.ids({"cat": 3})[10, 20] == 3
    assert item.ids({"cat": 3})[20, 20] == 255


def test_soft_supports_are_what_inference_takes():
    import torch

    from repri import infer

    features = torch.randn(1, 1, 16, 10, 15)
    for shape in (Shape("cat", "box", ((10, 10), (50, 30))), Shape("cat", "scribble", ((10, 10), (40, 10)))):
        soft = torch.from_numpy(AnnotatedImage(None, 40, 60, (shape,)).support("cat"))
        out = infer(features, soft[None, None], features[:, 0])
        assert torch.isfinite(out.probability).all()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is not JSON"),
        ("3", "holds a int"),
        ("{}", "in none of the known formats"),
        ('{"shapes": [{"label": "x"}]}', "needs the size of|a shape cannot be read"),
        ('{"shapes": [{"label": "x"}], "imageHeight": 4, "imageWidth": 4}', "a shape cannot be read"),
        ('[{"data": {}, "annotations": [{"result": [{"type": "labels"}]}]}]', "task 0: cannot be read"),
        ('{"categories": [], "images": []}', "is not COCO's annotation format .no 'annotations'"),
        ("[]", "holds no annotated image"),
    ],
)
def test_files_that_are_something_else(tmp_path, content, message):
    path = tmp_path / "x.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=message) as caught:
        read_annotated(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def test_an_empty_folder_and_an_unknown_format(tmp_path):
    with pytest.raises(ValueError, match="in none of the known formats"):
        read_annotated(tmp_path)
    with pytest.raises(ValueError, match="no annotation format named 'yolo'"):
        read_annotated(tmp_path, "yolo")
