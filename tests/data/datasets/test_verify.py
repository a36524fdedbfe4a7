"""Verification names every file that is wrong."""

import numpy as np
from PIL import Image

from repri.data.datasets.folder import open_folder
from repri.data.datasets.open import open_dataset
from repri.data.datasets.verify import doubled_images, verify
from repri.data.io.masks import write_mask
from tests.data.make import block, save_ids, save_image, tiny_pascal


def spoil(root):
    """Damage one file in each way; returns file → part of the sentence about it."""
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
        "01_0.jpg": "01_0.jpg does not exist",
        "02_0.png": "02_0.jpg has no mask",
        "03_0.jpg": "is empty (0 bytes)",
        "04_0.jpg": "cannot be read as an image (image file is truncated",
        "05_0.png": "is 60×64 and its image",
        "06_0.png": "holds the class ids 77",
        "07_0.png": "look like VOC's palette saved as grey levels (128 for 7)",
        "08_0.png": "as an image of grey levels does",
        "09_0.png": "cannot be read as an image",
        "10_0.png": "is painted in colours and (0, 0, 0) needs a colour map",
    }


def test_each_wrong_file_is_named(tmp_path):
    root = tiny_pascal(tmp_path)
    assert verify(open_dataset("pascal", root)).usable
    wanted = spoil(root)
    result = verify(open_dataset("pascal", root), workers=2)
    assert not result.usable
    assert len(result.problems) == len(wanted)
    for name, words in wanted.items():
        [sentence] = [problem for problem in result.problems if name in problem]
        assert words in sentence
    assert result.counts[11] == 3
    assert result.counts[9] == 2
    assert not result.standard


def test_masks_without_images_and_images_without_masks(tmp_path):
    for n in range(3):
        save_image(tmp_path / "images" / f"{n}.jpg")
        save_ids(tmp_path / "masks" / f"{n}.png", block(40, 60, 1, 100))
    (tmp_path / "images" / "0.jpg").unlink()
    (tmp_path / "masks" / "1.png").unlink()
    (tmp_path / "classes.txt").write_text("thing\n")
    problems = verify(open_folder(tmp_path)).problems
    assert len(problems) == 2
    assert "1.jpg has no mask" in problems[0]
    assert "0.png: a mask without an image" in problems[1]


def test_images_in_two_splits(tmp_path):
    root = tiny_pascal(tmp_path, per_class=1, classes=(1, 2))
    (root / "lists/pascal/train.txt").write_text("JPEGImages/02_0.jpg SegmentationClassAug/02_0.png\n")
    splits = [open_dataset("pascal", root, split) for split in ("train", "val")]
    [sentence] = doubled_images(splits)
    assert sentence == f"{root}/JPEGImages/02_0.jpg: is in train and in val; keep one"


def test_a_small_real_set_is_usable(test_data):
    for split in ("train", "val"):
        result = verify(open_dataset("pascal", test_data / "data" / "fixture_voc", split))
        assert result.problems == ()
        assert not result.standard
        assert np.all([result.dataset.mask(s.id).max() > 0 for s in result.dataset.samples[:5]])
