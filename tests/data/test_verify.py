"""Verification names every offender; the commands print what a person needs."""

import os
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from repri.data.datasets.dataset import open_folder
from repri.data.datasets.open import open_dataset
from repri.data.datasets.verify import verify
from repri.data.io.images import write_mask

from .make import block, save_ids, save_picture, tiny_pascal


def repri(*arguments, cache):
    command = [sys.executable, "-m", "repri", *map(str, arguments)]
    environment = os.environ | {"REPRI_CACHE": str(cache), "COLUMNS": "80"}
    return subprocess.run(command, capture_output=True, text=True, env=environment)


def spoil(root):
    """One of each kind of damage; returns file → what must be said of it."""
    images, masks = root / "JPEGImages", root / "SegmentationClassAug"
    (images / "01_0.jpg").unlink()
    (masks / "02_0.png").unlink()
    (images / "03_0.jpg").write_bytes(b"")
    whole = (images / "04_0.jpg").read_bytes()
    (images / "04_0.jpg").write_bytes(whole[: len(whole) // 2])
    save_ids(masks / "05_0.png", np.zeros((64, 60)))
    save_ids(masks / "06_0.png", block(64, 64, 77, 500))
    write_mask(np.where(block(64, 64, 7, 2100) > 0, 7, 255).astype(np.uint8), masks / "07_0.png")
    with Image.open(masks / "07_0.png") as palette:
        grey = palette.convert("L")
    grey.save(masks / "07_0.png")
    save_ids(masks / "08_0.png", np.tile(np.arange(64) * 4, (64, 1)))
    (masks / "09_0.png").write_bytes(b"text")
    rgb = np.zeros((64, 64, 3), np.uint8)
    rgb[0] = (9, 8, 7)
    Image.fromarray(rgb).save(masks / "10_0.png")
    return {
        "01_0.jpg": "does not exist",
        "02_0.png": "has no mask",
        "03_0.jpg": "is empty (0 bytes)",
        "04_0.jpg": "truncated",
        "05_0.png": "is 60×64 and its image",
        "06_0.png": "holds the class ids 77",
        "07_0.png": "look like VOC's palette saved as grey levels (128 for 7)",
        "08_0.png": "as a picture of grey levels does",
        "09_0.png": "cannot be read as an image",
        "10_0.png": "is painted in colours and (0, 0, 0) needs a colour map",
    }


def test_each_offender_is_named(tmp_path):
    root = tiny_pascal(tmp_path)
    assert verify(open_dataset("pascal", root)).usable
    wanted = spoil(root)
    found = verify(open_dataset("pascal", root), workers=2)
    assert not found.usable
    assert len(found.problems) == len(wanted)
    for name, words in wanted.items():
        [sentence] = [problem for problem in found.problems if name in problem]
        assert words in sentence
    assert found.counts[11] == 3
    assert found.counts[9] == 2
    assert not found.standard


def test_masks_without_images_and_images_without_masks(tmp_path):
    for n in range(3):
        save_picture(tmp_path / "images" / f"{n}.jpg")
        save_ids(tmp_path / "masks" / f"{n}.png", block(40, 60, 1, 100))
    dataset = open_folder(tmp_path)
    (tmp_path / "images" / "0.jpg").unlink()
    (tmp_path / "masks" / "1.png").unlink()
    (tmp_path / "classes.txt").write_text("thing\n")
    problems = verify(open_folder(tmp_path)).problems
    assert len(problems) == 2
    assert "1.jpg has no mask" in problems[0]
    assert "0.png: a mask without an image" in problems[1]
    assert dataset.classes == {1: "class 1"}


def test_the_commands(tmp_path):
    root, cache = tiny_pascal(tmp_path / "data"), tmp_path / "cache"
    done = repri("data", "verify", "pascal", "--root", root, cache=cache)
    assert done.returncode == 1, "the same images are in train and val"
    assert "is in train and in val" in done.stdout
    lines = (root / "lists/pascal/train.txt").read_text().splitlines()
    (root / "lists/pascal/train.txt").write_text("\n".join(lines[:2]) + "\n")
    (root / "lists/pascal/val.txt").write_text("\n".join(lines[2:]) + "\n")
    done = repri("data", "verify", "pascal", "--root", root, cache=cache)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "   0  aeroplane                  1  expected 81" in done.stdout
    assert "not those of the standard lists" in done.stdout
    assert repri("data", "verify", "pascal", "--root", root, "--strict", cache=cache).returncode == 1
    tasks = tmp_path / "tasks.json"
    done = repri("data", "tasks", "pascal", "--root", root, "--fold", 2, "--tasks", 9, "--output", tasks, cache=cache)
    assert done.returncode == 0, done.stderr
    assert "5 × 9 tasks, 1 shots" in done.stdout
    sheet = tmp_path / "sheet.png"
    done = repri("data", "show", "pascal", "--root", root, "--fold", 1, "--shots", 2, "--output", sheet, cache=cache)
    assert done.returncode == 0, done.stderr
    with Image.open(sheet) as image:
        assert image.height == 8 * (150 + 22)
        assert image.width > 3 * 150


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("verify", "pascal", "--root", "nowhere"), "there is no folder nowhere"),
        (("verify", "pascal"), "needs --root"),
        (("verify", "mine.yml"), "cannot read mine.yml"),
        (("get", "imagenet", "--root", "x"), "only pascal and coco"),
        (("show", "pascal", "--root", ".", "--output", "x.gif"), "must be a file name ending in .png or .jpg"),
        (("tasks", "pascal", "--root", ".", "--protocol", "pure", "--output", "x.json"), "no protocol named 'pure'"),
        (("convert", "nowhere", "x", "--to", "coco"), "nowhere does not exist"),
    ],
)
def test_mistakes_get_one_sentence(tmp_path, arguments, message):
    done = repri("data", *arguments, cache=tmp_path)
    assert done.returncode == 1
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
