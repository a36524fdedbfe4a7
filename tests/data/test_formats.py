"""Every annotation format: what comes in is what was drawn, and comes back from where it was written."""

import base64
import io
import json

import numpy as np
import pytest
from PIL import Image

from repri.data.io.annotations import AnnotatedImage, Annotations, Shape, box_prior, polygons_of, shapes_of
from repri.data.io.formats import FORMATS, detect_format, read_annotated, write_annotated
from repri.data.io.formats.label_studio import decode_brush, encode_brush

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
    if format in ("folder", "voc"):
        with pytest.raises(ValueError, match="is there already"):
            write_annotated(source, path, format)
    else:
        write_annotated(source, path, format)  # one file replaces another


def test_coco_polygons_are_exact_too(tmp_path):
    from repri.data.io.formats import coco

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
    from repri.data.io.coco import decode

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


def labelme(path, shapes, **more):
    """A LabelMe file of a 40×60 picture."""
    save_picture(path.with_suffix(".jpg"))
    content = {"imagePath": f"{path.stem}.jpg", "imageHeight": 40, "imageWidth": 60, "shapes": shapes} | more
    path.write_text(json.dumps(content))
    return path


def polygon(label, left, top, right, bottom):
    return {"label": label, "points": [[left, top], [right, top], [right, bottom], [left, bottom]]}


@pytest.mark.parametrize("format", ["coco", "label-studio"])
def test_formats_without_an_order_keep_what_is_visible(tmp_path, format):
    """A large shape over a small one, an eraser and void on top; then strokes, whose rest stays unlabelled."""
    drawn = [polygon("a", 5, 5, 15, 15), polygon("b", 3, 3, 30, 30), polygon("background", 20, 20, 25, 25)]
    stroke = {"label": "a", "points": [[5, 5], [40, 30]], "shape_type": "linestrip"}
    for number, shapes in enumerate([[*drawn, polygon("ignore", 28, 0, 32, 32), polygon("a", 50, 5, 55, 9)], [stroke]]):
        source = read_annotated(labelme(tmp_path / f"{number}.json", shapes))
        write_annotated(source, tmp_path / "out.json.x", format)
        back = read_annotated(tmp_path / "out.json.x", format)
        assert (back.images[0].ids(back.ids) == source.images[0].ids(source.ids)).all()


def test_nothing_is_lost_or_half_written(tmp_path):
    source = annotated(tmp_path / "source")
    other = tmp_path / "other" / "a.jpg"
    save_picture(other)
    clash = Annotations(source.classes, (*source.images, AnnotatedImage(other, 40, 60, source.images[0].shapes)))
    gone = Annotations(
        source.classes, (*source.images, AnnotatedImage(tmp_path / "z.jpg", 40, 60, source.images[0].shapes))
    )
    for format in FORMATS:
        with pytest.raises(ValueError, match=r"a.jpg and .*a.jpg would both be written as"):
            write_annotated(clash, tmp_path / "out", format)
    for format in ("folder", "voc"):
        with pytest.raises(ValueError, match=r"z.jpg does not exist: say where the images are"):
            write_annotated(gone, tmp_path / "out", format)
    assert not (tmp_path / "out").exists()
    with pytest.raises(ValueError, match="no object is labelled"):
        write_annotated(Annotations((), source.images), tmp_path / "out", "coco")


def test_void_alone_does_not_become_an_object(tmp_path):
    """A mask of 0 and 255 among masks of ids is void; where all are so, 255 is the object."""
    mask = np.zeros((40, 60), np.uint8)
    mask[:5] = 255
    save_picture(tmp_path / "images" / "a.jpg")
    one = AnnotatedImage(tmp_path / "images" / "a.jpg", 40, 60, shapes_of(mask, NAMES))
    write_annotated(Annotations(("cat", "dog"), (one,)), tmp_path / "out", "folder")
    back = read_annotated(tmp_path / "out")
    assert set(np.unique(back.images[0].ids(back.ids))) == {0, 255}


def test_odd_shapes(tmp_path):
    patch = io.BytesIO()
    Image.fromarray(np.full((10, 10), 255, np.uint8)).save(patch, "PNG")
    png = base64.b64encode(patch.getvalue()).decode()
    corner = {"label": "a", "points": [[-5, -5], [4, 4]], "shape_type": "mask", "mask": png}
    found = read_annotated(labelme(tmp_path / "a.json", [corner]))
    assert found.images[0].ids(found.ids).sum() == 25
    outside = [{"label": "a", "points": [[70, 50], [90, 60]], "shape_type": "rectangle"}, polygon("a", 1, 1, 5, 5)]
    found = read_annotated(labelme(tmp_path / "b.json", outside))
    write_annotated(found, tmp_path / "c.json", "coco")
    assert len(read_annotated(tmp_path / "c.json").images[0].shapes) == 1


@pytest.mark.parametrize(
    ("shapes", "more", "message"),
    [
        ([{"label": "a", "points": [], "shape_type": "linestrip"}], {}, "a linestrip has only 0 points"),
        ([{"label": "a", "points": [[1, 2]], "shape_type": "rectangle"}], {}, "a rectangle has only 1 points"),
        ([polygon("a", 1, 1, 9, 9)], {"imageHeight": "40"}, "must be whole numbers"),
        ([polygon("a", 1, 1, 9, 9)], {"imageHeight": 41}, "annotates .* as 60×41 and the image is 60×40"),
        ([polygon("a", 1, 1, 9, 9)], {"imageHeight": 400000, "imageWidth": 500000}, "the limit is"),
        ([polygon("ignore", 1, 1, 9, 9)], {}, "no object is labelled"),
    ],
)
def test_labelme_files_that_cannot_be_used(tmp_path, shapes, more, message):
    with pytest.raises(ValueError, match=message):
        write_annotated(read_annotated(labelme(tmp_path / "a.json", shapes, **more)), tmp_path / "o.json", "coco")


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"segmentation": {"size": [40, 60], "counts": [0, 400]}}, "do not add up to the 2400 pixels"),
        ({"segmentation": {"size": [40, 60], "counts": "04"}}, "do not add up"),
        ({"segmentation": {"size": [40, 60], "counts": [-1, 2401]}}, "do not add up"),
        ({"segmentation": {"size": [60, 40], "counts": [2400]}}, "its RLE is of a 40×60 image, this one is 60×40"),
        ({"segmentation": {"counts": [2400]}}, "neither polygons nor RLE"),
        ({"segmentation": [[[1, 2], [3, 4], [5, 6]]]}, "neither polygons nor RLE"),
        ({"segmentation": [], "bbox": ["a", 1, 2, 3]}, "cannot be read"),
        ({"category_id": 5, "segmentation": []}, "object 1 has the unlisted category 5"),
    ],
)
def test_coco_objects_that_cannot_be_read(tmp_path, entry, message):
    save_picture(tmp_path / "a.jpg")
    content = {
        "images": [{"id": 7, "file_name": "a.jpg", "height": 40, "width": 60}],
        "annotations": [{"id": 1, "image_id": 7, "category_id": 1} | entry],
        "categories": [{"id": 1, "name": "cat"}],
    }
    (tmp_path / "x.json").write_text(json.dumps(content))
    with pytest.raises(ValueError, match=message) as caught:
        read_annotated(tmp_path / "x.json")
    assert str(caught.value).startswith(str(tmp_path / "x.json"))


def test_an_empty_folder_and_an_unknown_format(tmp_path):
    with pytest.raises(ValueError, match="in none of the known formats"):
        read_annotated(tmp_path)
    with pytest.raises(ValueError, match="no annotation format named 'yolo'"):
        read_annotated(tmp_path, "yolo")
