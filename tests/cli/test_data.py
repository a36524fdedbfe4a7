"""``repri data``: what a person meets."""

import json

import pytest
from PIL import Image
from typer.testing import CliRunner

from repri.cli import app
from tests.data.make import block, save_ids, save_image, tiny_pascal


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("REPRI_CACHE", str(tmp_path_factory.mktemp("cache")))


def repri(*arguments):
    """Run ``repri data``; a mistake of the user is the exception, which ``main`` prints as one sentence."""
    return CliRunner().invoke(app, ["data", *map(str, arguments)])


@pytest.fixture
def root(tmp_path):
    """A tiny PASCAL with two images for training and the rest for validation."""
    root = tiny_pascal(tmp_path / "data")
    lines = (root / "lists/pascal/train.txt").read_text().splitlines()
    (root / "lists/pascal/train.txt").write_text("\n".join(lines[:2]) + "\n")
    (root / "lists/pascal/val.txt").write_text("\n".join(lines[2:]) + "\n")
    return root


def test_verify(root):
    done = repri("verify", "pascal", "--root", root)
    assert done.exit_code == 0, done.output
    assert "   0  aeroplane                  1  expected 81" in done.stdout
    assert "not those of the standard lists" in done.stdout
    assert repri("verify", "pascal", "--root", root, "--strict").exit_code == 1


def test_verify_refuses_images_in_two_splits(root):
    (root / "lists/pascal/train.txt").write_text((root / "lists/pascal/val.txt").read_text())
    done = repri("verify", "pascal", "--root", root)
    assert done.exit_code == 1
    assert "is in train and in val" in done.stdout
    assert "Not usable: 58 problems." in done.stdout


def test_verify_notes_images_in_two_splits_of_ones_own_data(tmp_path):
    save_image(tmp_path / "a.jpg")
    save_ids(tmp_path / "a.png", block(40, 60, 1, 100))
    (tmp_path / "list.txt").write_text("a.jpg a.png\n")
    (tmp_path / "x.yaml").write_text("{name: x, classes: [cat], splits: {train: list.txt, val: list.txt}}")
    done = repri("verify", tmp_path / "x.yaml")
    assert done.exit_code == 0, done.output
    assert "Note: 1 images are in two splits" in done.stdout
    assert done.stdout.endswith("Usable.\n")


def test_tasks(root, tmp_path):
    tasks = tmp_path / "tasks.json"
    done = repri("tasks", "pascal", "--root", root, "--fold", 2, "--tasks", 9, "--output", tasks)
    assert done.exit_code == 0, done.output
    assert "5 × 9 tasks, 1 shots" in done.stdout
    content = json.loads(tasks.read_text())
    assert sorted(map(int, content["classes"])) == [11, 12, 13, 14, 15]
    assert f"hash {content['hash']}" in done.stdout


def test_tasks_with_another_number_of_pixels(root, tmp_path):
    done = repri("tasks", "pascal", "--root", root, "--min-pixels", 2050, "--output", tmp_path / "x.json")
    assert "only 1 image with at least 2050 pixels of 'aeroplane'" in str(done.exception)


def test_show(root, tmp_path):
    sheet = tmp_path / "sheet.png"
    done = repri("show", "pascal", "--root", root, "--fold", 1, "--shots", 2, "--output", sheet)
    assert done.exit_code == 0, done.output
    with Image.open(sheet) as image:
        assert image.height == 8 * (150 + 22)
        assert image.width > 3 * 150


def test_convert(tmp_path):
    save_image(tmp_path / "in" / "images" / "a.jpg")
    save_ids(tmp_path / "in" / "masks" / "a.png", block(40, 60, 1, 120))
    done = repri("convert", tmp_path / "in", tmp_path / "x.json", "--to", "coco")
    assert done.exit_code == 0, done.output
    assert "1 images, 1 classes" in done.stdout
    assert repri("convert", tmp_path / "in", tmp_path / "y.json", "--to", "coco", "--polygons").exit_code == 0
    rle, polygons = (
        json.loads((tmp_path / name).read_text())["annotations"][0]["segmentation"] for name in ("x.json", "y.json")
    )
    assert (type(rle), type(polygons)) == (dict, list)


def test_get(tmp_path, monkeypatch):
    """The options reach the functions that download."""
    calls = []
    monkeypatch.setattr("repri.data.fetch.pascal.get_pascal", lambda *given: calls.append(given))
    monkeypatch.setattr("repri.data.fetch.coco.get_coco", lambda *given: calls.append(given))
    done = repri(
        "get", "pascal", "--root", tmp_path, "--val-list", "mine.txt", "--mirror", "http://x", "--keep-archives"
    )
    assert done.exit_code == 0, done.output
    assert repri("get", "coco", "--root", tmp_path).exit_code == 0
    (downloads, lists, keep), (_, other) = calls
    assert (downloads.root, downloads.mirror, keep, other) == (tmp_path, "http://x", True, False)
    assert {split: str(path) for split, path in lists.items()} == {"val": "mine.txt"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("verify", "pascal", "--root", "nowhere"), "there is no folder nowhere"),
        (("verify", "pascal"), "pascal needs --root"),
        (("verify", "mine.yml"), "cannot read mine.yml"),
        (("get", "imagenet", "--root", "x"), "only pascal and coco can be fetched, not 'imagenet'"),
        (("get", "coco", "--root", "x", "--train-list", "y"), "--train-list and --val-list are for pascal"),
        (("show", "pascal", "--root", ".", "--output", "x.gif"), "must be a file name ending in .png or .jpg"),
        (("tasks", "pascal", "--root", ".", "--protocol", "pure", "--output", "x.json"), "no protocol named 'pure'"),
        (("convert", "nowhere", "x", "--to", "coco"), "nowhere does not exist"),
    ],
)
def test_mistakes_get_one_sentence(arguments, message):
    done = repri(*arguments)
    assert done.exit_code == 1
    assert isinstance(done.exception, ValueError)
    assert message in str(done.exception)
    assert "\n" not in str(done.exception)
