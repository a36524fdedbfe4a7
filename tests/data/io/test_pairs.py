"""Folders of images and masks."""

import numpy as np
import pytest

from repri.data.io.pairs import pair_files, read_image_folder
from repri.runtime.errors import RepriError
from tests.data.make import block, save_ids, save_image


@pytest.fixture
def folder(tmp_path):
    for n, id in enumerate((1, 4)):
        save_image(tmp_path / "images" / f"{n}.jpg")
        save_ids(tmp_path / "masks" / f"{n}.png", block(40, 60, id, 500))
    return tmp_path


def test_images_and_masks_of_one_name(folder):
    (folder / "masks" / ".thumbs.png").write_bytes(b"")
    (folder / "masks" / "1.png").unlink()
    pairs = pair_files(folder / "images", folder / "masks")
    assert [(pair.image.name, pair.mask.name) for pair in pairs] == [("0.jpg", "0.png"), ("1.jpg", "1.png")]


def test_classes_by_name_or_by_number(folder):
    assert read_image_folder(folder).classes == {1: "class 1", 4: "class 4"}
    (folder / "classes.txt").write_text("a\nb\n\nc\nd\n")
    assert read_image_folder(folder).classes == {1: "a", 2: "b", 3: "c", 4: "d"}


def test_one_mask_of_ids_makes_the_folder_one_of_ids(folder):
    save_ids(folder / "masks" / "0.png", block(40, 60, 255, 500))
    assert read_image_folder(folder).masks == "index"
    save_ids(folder / "masks" / "1.png", np.zeros((40, 60)))  # an empty mask does not tell
    assert read_image_folder(folder).masks == "binary"


def test_folders_that_cannot_be_used(folder):
    save_ids(folder / "masks" / "0.png", np.arange(2400).reshape(40, 60) % 256)
    with pytest.raises(RepriError, match="hold 254 different values: if they are ids, name the classes in"):
        read_image_folder(folder)
    save_image(folder / "images" / "0.png")
    with pytest.raises(RepriError, match="has two images that go by the name '0': keep one or rename it"):
        read_image_folder(folder)
    with pytest.raises(RepriError, match=r"there is no folder .*gone"):
        pair_files(folder / "images", folder / "gone")
    (folder / "none").mkdir()
    with pytest.raises(RepriError, match=r"there are no images in .*none"):
        pair_files(folder / "none", folder / "masks")
