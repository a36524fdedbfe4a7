"""``repri try`` from end to end."""

import json

import pytest

from repri.models.load import EXTRACTORS
from repri.segmenter.experts.blend import Choice
from tests.make import annotated_folder, build_quick


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    """An extractor that needs no time, and a narrow terminal."""
    monkeypatch.setattr(EXTRACTORS, "_objects", {**EXTRACTORS._objects, "quick": build_quick})
    monkeypatch.setenv("COLUMNS", "80")


@pytest.fixture
def try_it(repri):
    def run(*arguments):
        return repri("try", *arguments, "--extractor", "quick")

    return run


def test_a_folder_is_tried(try_it, tmp_path):
    path = annotated_folder(tmp_path / "squares", 6)
    done = try_it(path, "--methods", "ce,prototype", "--draws", 2, "--shots", "1,2,6", "--output", tmp_path / "out")
    assert done.code == 0, done.err
    assert f"{path}: 6 shots are left out, because no image would remain as a query (6 are annotated)." in done.err
    lines = done.out.splitlines()
    assert "squares: 6 annotated images, draws: 2, queries in each: 5" in lines[0]
    assert sum("│" in line for line in lines) == 4
    assert any(line.startswith("learning curve") for line in lines)
    assert lines[-2].startswith("With 2 annotated images and the method ")
    assert lines[-1] == f"the figures and images: {tmp_path}/out/index.html"
    assert all(len(line) <= 80 for line in lines[:-2])
    data = json.loads((tmp_path / "out/trial.json").read_text())
    assert data["settings"]["methods"] == ["ce", "prototype"]
    assert data["advice"] == lines[-2]
    assert {"best.jpg", "worst.jpg", "index.html"} <= {file.name for file in (tmp_path / "out").iterdir()}
    again = try_it(path, "--methods", "ce", "--shots", 1, "--draws", 1, "--output", tmp_path / "out")
    assert again.code == 0


def test_several_folders_and_classes(try_it, tmp_path):
    folders = [annotated_folder(tmp_path / "one", 4), annotated_folder(tmp_path / "two", 4, ("red", "sky [blue]"))]
    done = try_it(*folders, "--methods", "ce", "--draws", 1, "--shots", 1, "--scribbles")
    assert done.code == 0, done.err
    assert "one: 4 annotated images" in done.out
    assert "│   sky [blue] │" in done.out
    assert "mean over the folders" in done.out
    assert "learning curve" not in done.out
    assert "of each class and the method ce expect an IoU" in done.out.splitlines()[-1]
    assert "as a mean over the 2 folders" in done.out.splitlines()[-1]


def test_the_choice_is_printed(try_it, tmp_path, monkeypatch):
    monkeypatch.setattr(Choice, "__str__", lambda choice: "It took [the] forest.")
    done = try_it(annotated_folder(tmp_path / "one", 3), "--methods", "auto", "--draws", 2, "--shots", 1)
    assert "auto, 1 shot: It took [the] forest.\n" in done.out


@pytest.mark.parametrize(
    ("images", "arguments", "sentence"),
    [
        (1, (), "has 1 annotated image, and a trial needs at least 2"),
        (3, ("--shots", "4,5"), "cannot be tried with 4 shots: there are only 3 annotated images"),
        (3, ("--methods", "magic"), "there is no method named 'magic' to try"),
        (3, ("--draws", "0"), "--draws must be at least 1, got 0."),
        (3, ("--classes", "green"), "has no class 'green'; it has red."),
    ],
)
def test_a_mistake_is_one_sentence(try_it, tmp_path, images, arguments, sentence):
    done = try_it(annotated_folder(tmp_path / "set", images), *arguments)
    assert done.code == 1
    assert sentence in done.err
    assert len(done.err.splitlines()) == 1
    assert done.out == ""


def test_a_folder_that_does_not_exist(try_it, tmp_path):
    assert f"{tmp_path}/none does not exist" in try_it(tmp_path / "none").err


def test_files_of_somebody_else_stay(try_it, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out/notes.txt").write_text("mine")
    done = try_it(annotated_folder(tmp_path / "set", 3), "--output", tmp_path / "out")
    assert done.code == 1
    assert "is not empty and holds no trial" in done.err
    assert [file.name for file in (tmp_path / "out").iterdir()] == ["notes.txt"]
