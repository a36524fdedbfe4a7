"""Results as files, and masks back."""

import io
import json
import zipfile

import numpy as np
import pytest
from PIL import Image

from repri.data.io.formats import read_annotated
from repri.data.io.images import read_image
from repri.data.io.masks import read_mask
from repri.web.export import FORMATS, archive, export_names, import_masks, masks_to_export, write_into_folder
from repri.web.limits import Limits, Refused
from repri.web.project import Project
from repri.web.session import Session
from tests.web.make import finish, full_annotation


@pytest.fixture
def done(session, scenes):
    """A project with results."""
    session.annotate(list(session.project.images)[1], full_annotation(scenes[1][0]))
    finish(session)
    return session


def test_every_format_holds_the_same_masks(done, tmp_path):
    path = archive(done, FORMATS, accepted_only=False)
    with zipfile.ZipFile(path) as packed:
        packed.extractall(tmp_path / "out")
    out, masks = tmp_path / "out", masks_to_export(done, False)
    names = export_names(done.project)
    assert sorted(names.values()) == ["more__scene4", "scene0", "scene1", "scene2", "scene3"]
    assert (out / "classes.txt").read_text() == "object\n"
    for id, mask in masks.items():
        assert (read_mask(out / "masks" / f"{names[id]}.png") == mask).all()
        assert read_image(out / "overlays" / f"{names[id]}.jpg").shape[:2] == mask.shape
        lines = (out / "yolo" / "labels" / f"{names[id]}.txt").read_text().splitlines()
        assert bool(lines) == bool(mask.any())
        for line in lines:
            label, *values = line.split()
            assert label == "0"
            assert len(values) >= 6
            assert all(0 <= float(value) <= 1 for value in values)
    coco = read_annotated(out / "coco.json", "coco")
    by_name = {item.image.stem: item for item in coco}
    for id, mask in masks.items():
        assert (by_name[names[id]].ids({"object": 1}) == mask).all()
    labelme = json.loads((out / "labelme" / "scene0.json").read_text())
    assert (labelme["imagePath"], labelme["imageHeight"]) == ("scene0.png", 64)
    assert len(json.loads((out / "label-studio.json").read_text())) == 5


def test_what_was_drawn_is_exported_as_it_was_drawn(done, scenes):
    shot = done.project.annotated[0]
    assert (masks_to_export(done, False)[shot] == scenes[1][0]).all()


def test_only_accepted_masks(done):
    with pytest.raises(Refused, match="No image is accepted"):
        masks_to_export(done, True)
    id = list(done.project.images)[3]
    done.accept([id], True)
    assert list(masks_to_export(done, True)) == [id]


def test_exported_masks_come_back_equal(done, segmenter):
    path = archive(done, ["masks"], accepted_only=False)
    wanted = masks_to_export(done, False)
    fresh = Session(Project(done.project.folder), segmenter)
    ids = import_masks(fresh, [("results.zip", path.read_bytes())])
    assert set(ids) == set(wanted)
    for id in ids:
        annotation = fresh.project.annotation(id)
        assert annotation.complete
    finish(fresh)
    again = masks_to_export(fresh, False)
    assert all((again[id] == mask).all() for id, mask in wanted.items())


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


def packed(name, data):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr(name, data)
    return buffer.getvalue()


def png(size=(64, 64), value=1):
    buffer = io.BytesIO()
    Image.new("L", size, value).save(buffer, "PNG")
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("name", "content", "status", "sentence"),
    [
        ("nothing.png", png(), 422, "None of the masks"),
        ("scene0.png", png((10, 10)), 422, "10×10"),
        ("scene0.png", png(value=7), 422, "label 7"),
        ("scene0.png", b"no image", 415, "scene0.png cannot be read"),
        ("a.zip", b"PK\x03\x04 broken", 415, "damaged"),
        ("a.zip", packed("masks/scene0.png", bytes(2_000_000)), 413, "unpacks to more"),
        ("a.zip", packed("../../scene0.png", png()), 422, "None of the masks"),
    ],
)
def test_masks_that_are_refused(folder, segmenter, name, content, status, sentence):
    session = Session(Project(folder, Limits(unpacked=1_000_000)), segmenter)
    with pytest.raises(Refused, match=sentence) as refused:
        import_masks(session, [(name, content)])
    assert refused.value.status == status
    assert session.project.annotated == []


def test_results_in_the_folder_are_not_images_of_the_project(done):
    target = write_into_folder(done, ["masks", "coco"], False)
    assert target.parent == done.project.folder / "repri-results"
    assert len(list((target / "masks").iterdir())) == 5
    assert len(Project(done.project.folder).images) == 5


def test_a_results_folder_that_leads_out_is_refused(done, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (done.project.folder / "repri-results").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Refused, match="leads out"):
        write_into_folder(done, ["masks"], False)


def test_names_that_would_be_equal_differ(folder, segmenter):
    Image.new("RGB", (64, 64)).save(folder / "scene0.jpg")
    Image.new("RGB", (64, 64)).save(folder / "more__scene4.jpg")
    names = export_names(Project(folder))
    assert len(set(names.values())) == len(names) == 7
