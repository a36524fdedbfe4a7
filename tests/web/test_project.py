"""Projects on disk."""

import io
import json
import os
import time

import numpy as np
import pytest
from PIL import Image

from repri.runtime.errors import RepriError
from repri.runtime.files import _machine
from repri.web.limits import Limits, Refused
from repri.web.marks import Annotation, Mark
from repri.web.project import Project
from repri.web.settings import ClassSettings

BOX = Mark(kind="box", label=1, points=[(1, 1), (9, 9)])


def content(size=(20, 30), format="PNG"):
    buffer = io.BytesIO()
    Image.new("RGB", size).save(buffer, format)
    return buffer.getvalue()


def test_the_images_of_a_folder_and_of_the_folders_in_it(project, scenes):
    names = [image.name for image in project.images.values()]
    assert names == ["more/scene4.png", "scene0.png", "scene1.png", "scene2.png", "scene3.png"]
    id = next(id for id, image in project.images.items() if image.name == "scene1.png")
    assert (project.pixels(id) == scenes[0][1]).all()
    assert project.size(id) == (64, 64)
    with Image.open(project.thumbnail(id)) as small:
        assert (small.format, small.size) == ("JPEG", (64, 64))


def test_everything_is_kept(project):
    first, second = list(project.images)[:2]
    project.change(project.settings.model_copy(update={"classes": [ClassSettings(name="a"), ClassSettings(name="b")]}))
    project.annotate(first, Annotation(marks=[BOX], complete=True))
    project.accept(second, np.full((64, 64), 2, np.uint8), {"confidence": 0.9})
    sent = project.add("../../etc/<b>.png", content())
    again = Project(project.folder)
    assert again.annotation(first) == Annotation(marks=[BOX], complete=True, revision=1)
    assert again.annotated == [first]
    assert (again.accepted_mask(second) == 2).all()
    assert [item.name for item in again.settings.classes] == ["a", "b"]
    assert again.images[sent.id].name == "<b>.png"
    assert again.images[sent.id].path.parent == project.folder / ".repri" / "images"
    again.reject(second)
    assert Project(project.folder).accepted == set()


def test_a_file_that_is_not_finished_does_not_count(project):
    """A server that is killed while it writes leaves a hidden temporary file."""
    id = next(iter(project.images))
    project.annotate(id, Annotation(marks=[BOX]))
    (project.folder / ".repri" / "annotations" / ".123-456.json").write_text('{"marks": [{"ki')
    assert Project(project.folder).annotation(id).marks == [BOX]


def test_what_was_being_sent_when_a_server_was_killed_is_removed(project):
    kept = project.add("a.png", content())
    folder = kept.path.parent
    for name, age in (("old.part", 3600), ("old.png", 3600), ("new.part", 0)):
        (folder / name).write_bytes(content())
        os.utime(folder / name, (time.time() - age,) * 2)
    os.utime(kept.path, (time.time() - 3600,) * 2)
    project.annotate(kept.id, Annotation(marks=[BOX]))
    half = project.folder / ".repri" / "annotations" / f".repri-{_machine()}-{2**22 - 7}-0123abcd.json"
    half.write_text("{")
    again = Project(project.folder)
    assert not half.exists()
    assert again.annotation(kept.id).marks == [BOX]
    assert kept.id in again.images
    assert {path.name for path in folder.iterdir()} == {kept.path.name, "new.part"}


def test_an_older_revision_is_refused(project):
    id = next(iter(project.images))
    project.annotate(id, Annotation(marks=[BOX]))
    with pytest.raises(Refused, match="another window") as refused:
        project.annotate(id, Annotation(marks=[]))
    assert refused.value.status == 409
    assert project.annotate(id, Annotation(marks=[], revision=1)).revision == 2


def test_links_that_lead_out_are_not_followed(project, tmp_path):
    (tmp_path / "outside.png").write_bytes(content())
    (project.folder / "link.png").symlink_to(tmp_path / "outside.png")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "a.png").write_bytes(content())
    (project.folder / "linked").symlink_to(tmp_path / "elsewhere")
    project.refresh()
    assert len(project.images) == 5
    victim = next(iter(project.images))
    path = project.images[victim].path
    path.unlink()
    path.symlink_to(tmp_path / "outside.png")  # exchanged after the folder was read
    with pytest.raises(Refused, match="no longer"):
        project.pixels(victim)


def test_a_state_folder_that_leads_out_is_refused(folder, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (folder / ".repri").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RepriError, match="leads out"):
        Project(folder)


@pytest.mark.parametrize(
    ("data", "limits", "status"),
    [
        (b"<svg onload=alert(1)>", Limits(), 415),
        (b"%PDF-1.4", Limits(), 415),
        (content()[:40], Limits(), 415),
        (content((3000, 3000)), Limits(pixels=1_000_000), 415),
        (content(), Limits(file=10), 413),
        (content(), Limits(images=5), 413),
    ],
)
def test_files_that_may_not_be_added(folder, data, limits, status):
    project = Project(folder, limits)
    with pytest.raises(Refused) as refused:
        project.add("x.png", data)
    assert refused.value.status == status
    assert str(project.folder) not in str(refused.value)
    assert len(Project(folder).images) == 5
    assert not list((folder / ".repri").rglob("*.part"))


def test_the_format_is_told_by_the_content(project):
    assert project.add("photo.png", content(format="JPEG")).path.suffix == ".jpg"


def test_damaged_files_are_named(project):
    id = next(iter(project.images))
    project.annotate(id, Annotation(marks=[BOX]))
    path = project.folder / ".repri" / "annotations" / f"{id}.json"
    path.write_text(json.dumps({"marks": 3}))
    with pytest.raises(RepriError, match=f"{id}.json is damaged"):
        Project(project.folder)


@pytest.mark.skipif(os.name == "nt", reason="the file system does not allow such names")
def test_names_that_are_not_text(folder):
    (folder / "<img src=x onerror=alert(1)>.png").write_bytes(content())
    (folder / os.fsdecode(b"bad\xff\n.png")).write_bytes(content())
    names = [image.name for image in Project(folder).images.values()]
    assert "<img src=x onerror=alert(1)>.png" in names
    assert all(name.isprintable() for name in names)


def test_too_many_images_and_no_folder(folder, tmp_path):
    with pytest.raises(RepriError, match="the limit is 3"):
        Project(folder, Limits(images=3))
    with pytest.raises(RepriError, match="no folder"):
        Project(tmp_path / "nothing")
