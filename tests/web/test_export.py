"""Results as files."""

import json
import zipfile

import pytest
from PIL import Image

from repri.data.io.images import read_image
from repri.data.io.masks import read_mask
from repri.web.export import FORMATS, archive, export_names, masks_to_export, write_into_folder
from repri.web.limits import Refused
from repri.web.project import Project
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
    labelme = json.loads((out / "labelme" / "scene0.json").read_text())
    assert (labelme["imagePath"], labelme["imageHeight"]) == ("scene0.png", 64)
    assert len(json.loads((out / "label-studio.json").read_text())) == 5


def test_outlines_of_yolo(done, tmp_path):
    with zipfile.ZipFile(archive(done, ["yolo"], accepted_only=False)) as packed:
        packed.extractall(tmp_path)
    lines = (tmp_path / "yolo" / "labels" / "scene0.txt").read_text().splitlines()
    assert lines
    for line in lines:
        label, *values = line.split()
        assert label == "0"
        assert len(values) >= 6
        assert all(0 <= float(value) <= 1 for value in values)


def test_what_was_drawn_is_exported_as_it_was_drawn(done, scenes):
    shot = done.project.annotated[0]
    assert (masks_to_export(done, False)[shot] == scenes[1][0]).all()


def test_only_accepted_masks(done):
    with pytest.raises(Refused, match="No image is accepted"):
        masks_to_export(done, True)
    id = list(done.project.images)[3]
    done.accept([id], True)
    assert list(masks_to_export(done, True)) == [id]


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
