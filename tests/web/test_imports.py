"""Masks back into a project."""

import io
import json
import zipfile

import numpy as np
import pytest
from PIL import Image

from repri.web.export import archive, masks_to_export
from repri.web.imports import import_masks
from repri.web.limits import Limits, Refused
from repri.web.marks import Annotation, label_map, region_mark
from repri.web.project import Project
from repri.web.session import Session
from repri.web.settings import ClassSettings
from tests.web.make import finish


@pytest.fixture
def accepted(folder, segmenter):
    """A project of two classes whose masks have holes, thin lines, and no object at all."""
    session = Session(Project(folder), segmenter)
    classes = [ClassSettings(name="object"), ClassSettings(name="grüne Linie", colour="#00a2c7")]
    session.change(session.project.settings.model_copy(update={"classes": classes}))
    rng = np.random.default_rng(0)
    for n, id in enumerate(session.project.images):
        mask = np.zeros((64, 64), np.uint8)
        if n < 4:
            mask[5:40, 8:50] = 1
            mask[15:25, 20:30] = 0
            mask[18:20, 22:26] = 2
            mask[np.arange(64), np.arange(64)] = 2
            mask[45:, :30] = rng.integers(0, 3, (19, 30))
        session.project.accept(id, mask, {})
    return session


@pytest.mark.parametrize("format", ["masks", "coco", "labelme", "yolo", "label-studio"])
def test_exported_masks_come_back_equal(accepted, format):
    wanted = masks_to_export(accepted, True)
    path = archive(accepted, [format], accepted_only=True)
    assert set(import_masks(accepted, [("results.zip", path.read_bytes())])) == set(wanted)
    assert accepted.project.accepted == set()
    for id, mask in wanted.items():
        annotation = accepted.project.annotation(id)
        assert annotation.complete
        assert (label_map(annotation, 64, 64) == mask).all()


def test_an_import_is_exported_as_it_was(accepted):
    """The way round: what comes back wins over what is computed."""
    path = archive(accepted, ["masks", "coco", "yolo"], accepted_only=True)
    wanted = masks_to_export(accepted, True)
    import_masks(accepted, [("results.zip", path.read_bytes())])
    finish(accepted)
    assert all((again == wanted[id]).all() for id, again in masks_to_export(accepted, False).items())


def test_a_mask_with_unlabelled_pixels(session):
    id = list(session.project.images)[1]
    mask = np.full((64, 64), 255, np.uint8)
    mask[:20], mask[20:30] = 1, 0
    buffer = io.BytesIO()
    Image.fromarray(mask).save(buffer, "PNG")
    assert import_masks(session, [("scene0.png", buffer.getvalue())]) == [id]
    annotation = session.project.annotation(id)
    assert [mark.label for mark in annotation.marks] == [0, 1]
    assert not annotation.complete


def test_a_later_import_replaces_an_earlier_one(session):
    id = list(session.project.images)[1]
    session.annotate(id, Annotation(marks=[region_mark(np.ones((64, 64), bool), 1)]))
    import_masks(session, [("scene0.txt", b"")])
    assert session.project.annotation(id) == Annotation(complete=True, revision=2)


def packed(name, data):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr(name, data)
    return buffer.getvalue()


def png(size=(64, 64), value=1):
    buffer = io.BytesIO()
    Image.new("L", size, value).save(buffer, "PNG")
    return buffer.getvalue()


def labelme(label, side=64):
    shape = {"label": label, "points": [[1, 1], [9, 1], [9, 9]], "shape_type": "polygon"}
    content = {"shapes": [shape], "imagePath": "scene0.png", "imageHeight": side, "imageWidth": side}
    return json.dumps(content).encode()


@pytest.mark.parametrize(
    ("name", "content", "status", "sentence"),
    [
        ("nothing.png", png(), 422, "None of the masks"),
        ("scene0.png", png((10, 10)), 422, "10×10"),
        ("scene0.png", png(value=7), 422, "label 7"),
        ("scene0.png", b"no image", 415, "scene0.png cannot be read"),
        ("scene0.json", b"{", 415, "scene0.json is not JSON"),
        ("scene0.json", b'{"a": 1}', 415, "scene0.json is in none of the known formats"),
        ("scene0.json", labelme("tree"), 415, "the label 'tree' is not one of the classes object"),
        ("scene0.json", labelme("object", 99), 422, "99×99"),
        ("scene0.txt", b"0 0.1 0.1 0.2 0.2\n", 415, "scene0.txt, line 1: it needs a class and at least three points"),
        ("scene0.txt", b"0 0.1 0.1 0.2 nan 0.4 0.4\n", 415, "a point lies at"),
        ("scene0.txt", b"tree 0.1", 415, "scene0.txt, line 1: it is not a class and an outline"),
        ("scene0.txt", b"3 0.1 0.1 0.2 0.1 0.2 0.2\n", 422, "holds the label 4"),
        ("a.zip", b"PK\x03\x04 broken", 415, "damaged"),
        ("a.zip", packed("masks/scene0.png", bytes(2_000_000)), 413, "unpacks to more"),
        ("a.zip", packed("../../scene0.png", png()), 422, "None of the masks"),
        ("a.zip", packed("masks/../scene0.png", png()), 422, "None of the masks"),
    ],
)
def test_masks_that_are_refused(folder, segmenter, name, content, status, sentence):
    session = Session(Project(folder, Limits(unpacked=1_000_000)), segmenter)
    with pytest.raises(Refused, match=sentence) as refused:
        import_masks(session, [(name, content)])
    assert refused.value.status == status
    assert str(folder) not in str(refused.value)
    assert session.project.annotated == []
