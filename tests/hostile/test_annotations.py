"""Annotations that would crash a drawing library, fill the memory or mean something else: each is one sentence."""

import base64
import io
import json
import math

import numpy as np
import pytest
from PIL import Image

from repri.data.io.formats import read_annotated
from repri.runtime.errors import RepriError

HUGE, NAN, INF = 1e8, math.nan, math.inf
ZIGZAG = [value for i in range(200_000) for value in ((0, 0) if i % 2 else (60, 40))]


def coco(**entry):
    image = {"id": 1, "file_name": "a.png", "height": 40, "width": 60}
    found = {"id": 1, "image_id": 1, "category_id": 1} | entry
    return {"images": [image], "annotations": [found], "categories": [{"id": 1, "name": "cat"}]}


def labelme(**shape):
    return {"imageHeight": 40, "imageWidth": 60, "imagePath": "a.png", "shapes": [{"label": "cat"} | shape]}


def label_studio(size=(60, 40), kind="polygonlabels", **value):
    region = {"type": kind, "original_width": size[0], "original_height": size[1], "value": {kind: ["cat"]} | value}
    return [{"data": {"image": "a.png"}, "annotations": [{"result": [region]}]}]


def label_studio_strokes(count, width):
    """Key points that are wider than the image, one over the other."""
    size = {"original_width": 6000, "original_height": 4000}
    region = size | {"type": "keypointlabels", "value": {"keypointlabels": ["cat"], "x": 1, "y": 1, "width": width / 9}}
    return [{"data": {"image": "a.png"}, "annotations": [{"result": [region] * count}]}]


def png(width, height):
    content = io.BytesIO()
    Image.new("1", (width, height)).save(content, "PNG")
    return base64.b64encode(content.getvalue()).decode()


FAR = "far from the image of 60×40 pixels"
CASES = {
    "coco nan": (coco(segmentation=[[NAN, 0, 9, 0, 9, 9]]), r"a point lies at \(nan, 0\), " + FAR),
    "coco infinite": (coco(segmentation=[[0, 0, INF, 0, 9, 9]]), r"\(inf, 0\), " + FAR),
    "coco far": (coco(segmentation=[[0, 0, HUGE, 0, 9, 9]]), r"\(1e\+08, 0\), " + FAR),
    "coco negative": (coco(segmentation=[[0, 0, -HUGE, -HUGE, 9, 9]]), FAR),
    "coco whole": (coco(segmentation=[[0, 0, 10**400, 0, 9, 9]]), "neither polygons nor RLE"),
    "coco odd": (coco(segmentation=[[0, 0, 9, 0, 9, 9, 5]]), "a polygon has 7 values"),
    "coco long": (coco(segmentation=[ZIGZAG * 2]), "REPRI_MAX_OUTLINE"),
    "coco box": (coco(bbox=[0, 0, INF, 4]), "its bbox: 2 should be a finite number"),
    "coco far box": (coco(bbox=[0, 0, HUGE, 4]), FAR),
    "coco endless run": (coco(segmentation={"size": [40, 60], "counts": "o" * 10**6}), "COCO's compressed RLE"),
    "coco foreign run": (coco(segmentation={"size": [40, 60], "counts": "é~"}), "COCO's compressed RLE"),
    "coco large run": (coco(segmentation={"size": [40, 60], "counts": [10**30]}), "do not add up"),
    "coco name": (coco() | {"categories": [{"id": 1, "name": "cat\ndog"}]}, "holds a control character"),
    "coco turned": (coco() | {"categories": [{"id": 1, "name": "a\u202eb"}]}, "that turns the text around"),
    "coco unseen": (coco() | {"categories": [{"id": 1, "name": "\u200b\u200d"}]}, "nothing of it can be seen"),
    "coco nested": (coco(segmentation=[[[1, 1], [2, 2]]]), "polygons are lists of numbers x, y, x, y"),
    "coco no polygon": (coco(segmentation=[None]), r"polygons are lists of numbers x, y, x, y, …, got \[None\]"),
    "coco no counts": (coco(segmentation={"size": [40, 60]}), "RLE has a size and counts"),
    "coco size": (coco() | {"images": [{"id": 1, "file_name": "a.png", "height": 4.5, "width": 6}]}, "whole numbers"),
    "coco blank": (coco() | {"categories": [{"id": 1, "name": " \t"}]}, "cannot be the name of a class: it is empty"),
    "coco surrogate": (coco() | {"categories": [{"id": 1, "name": "\ud800"}]}, "holds a control character"),
    "coco ids": (coco(category_id=[1]), "annotations.0.category_id"),
    "labelme nan": (labelme(points=[[NAN, 0], [9, 0], [9, 9]]), r"\(nan, 0\), " + FAR),
    "labelme far": (labelme(points=[[0, 0], [HUGE, 0], [9, 9]]), FAR),
    "labelme circle": (labelme(shape_type="circle", points=[[0, 0], [HUGE, HUGE]]), FAR),
    "labelme stroke": (labelme(shape_type="linestrip", points=[[0, 0], [-HUGE, 0]]), FAR),
    "labelme mask": (labelme(shape_type="mask", points=[[0, 0]], mask=png(30_000, 30_000)), "REPRI_MAX_PIXELS"),
    "labelme no mask": (labelme(shape_type="mask", points=[[0, 0]]), "its mask cannot be read as an image"),
    "labelme size": (labelme(points=[[0, 0]] * 3) | {"imageHeight": 10**9}, "60×1000000000 pixels, the limit is"),
    "labelme part": (labelme(points=[[0, 0]] * 3) | {"imageHeight": 4.5}, "it must be whole numbers above 0"),
    "labelme name": (labelme(label="a\u2028b", points=[[0, 0]] * 3), "holds a control character"),
    "labelme points": (labelme(points={"x": 1}), "shapes.0.points should be a valid list"),
    "studio nan": (label_studio(points=[[NAN, 0], [9, 0], [9, 9]]), "points.0.0 should be a finite number"),
    "studio far": (label_studio(points=[[0, 0], [HUGE, 0], [9, 9]]), FAR),
    "studio key point": (label_studio(kind="keypointlabels", x=1, y=1, width=INF), "value.width should be a finite"),
    "studio stroke": (
        label_studio(kind="keypointlabels", x=1, y=1, width=1e6),
        "'cat' is 600000 pixels wide",
    ),
    "studio strokes": (
        label_studio_strokes(2000, 300),
        "a.png has .* pixels under its strokes, the limit is 4,000,000,000: set REPRI_MAX_STROKES",
    ),
    "studio ellipse": (label_studio(kind="ellipselabels", x=1, y=1, radiusX=HUGE, radiusY=1), FAR),
    "studio size": (label_studio(size=(30_000, 30_000), kind="brushlabels", rle=[0]), "30000×30000 pixels, the limit"),
    "studio negative": (label_studio(size=(-60, 40), kind="brushlabels", rle=[0]), "it must be whole numbers above 0"),
    "studio brush": (label_studio(kind="brushlabels", rle=[300]), "values that are no bytes"),
    "studio short brush": (label_studio(kind="brushlabels", rle=[0, 0, 1]), "its RLE breaks off"),
    "studio address": (
        [{"data": {"image": "http://[a"}} | {"annotations": label_studio()[0]["annotations"]}],
        "no address",
    ),
    "studio nothing": ([{"annotations": label_studio(points=[])[0]["annotations"]}], "its data names no image"),
}


@pytest.mark.parametrize("case", CASES)
def test_annotations_are_refused(tmp_path, case):
    content, message = CASES[case]
    Image.new("RGB", (60, 40)).save(tmp_path / "a.png")
    path = tmp_path / "x.json"
    path.write_text(json.dumps(content))
    with pytest.raises(RepriError, match=message) as caught:
        read_annotated(path)
    assert str(caught.value).startswith(str(path))


def test_points_a_little_outside_are_drawn(tmp_path):
    Image.new("RGB", (60, 40)).save(tmp_path / "a.png")
    path = tmp_path / "x.json"
    path.write_text(json.dumps(coco(segmentation=[[-30, -30, 90, -30, 90, 70, -30, 70]])))
    annotations = read_annotated(path)
    assert (annotations.images[0].ids(annotations.ids) == 1).all()


def test_a_brush_of_single_words_is_quick():
    import time

    from repri.data.io.formats.brush import decode_brush

    height, width = 600, 800
    values = height * width * 4
    bits = [f"{values:032b}", f"{7:05b}", "1111" * 4]  # words of 8 bits, lengths of 16 bits
    pixels = np.random.default_rng(0).integers(0, 2, height * width).astype(bool)
    words = np.unpackbits(np.repeat(pixels, 4).astype(np.uint8)[:, None] * 255, axis=1)
    text = "".join(bits)
    stream = np.concatenate([np.frombuffer(text.encode(), np.uint8) - 48, *_literal(words)])
    start = time.process_time()
    assert (decode_brush(np.packbits(stream).tolist(), height, width).ravel() == pixels).all()
    assert time.process_time() - start < 3


def _literal(words):
    for start in range(0, len(words), 1 << 16):
        part = words[start : start + (1 << 16)]
        yield np.frombuffer(f"000{len(part) - 1:016b}".encode(), np.uint8) - 48
        yield part.ravel()
