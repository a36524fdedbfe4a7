"""Every kind of mask that people have, and the sentence about each file that cannot be read."""

import numpy as np
import pytest
from PIL import Image

from repri.data.io.masks import check_same_size, palette_png, read_mask, write_mask
from repri.runtime.errors import RepriError


def saved(path, pixels):
    Image.fromarray(pixels).save(path)
    return path


def test_masks_of_every_kind_give_ids(tmp_path):
    ids = np.array([[0, 1, 2], [20, 255, 0]], np.uint8)
    write_mask(ids, tmp_path / "palette.png")
    Image.fromarray(ids).save(tmp_path / "index.png")
    Image.fromarray(ids.astype(np.uint16)).save(tmp_path / "deep.png")
    np.save(tmp_path / "array.npy", ids.astype(np.int64))
    np.save(tmp_path / "bool.npy", ids > 0)
    for name in ("palette.png", "index.png", "deep.png", "array.npy"):
        assert (read_mask(tmp_path / name) == ids).all(), name
    with Image.open(tmp_path / "palette.png") as image:
        assert image.mode == "P"
    assert (read_mask(tmp_path / "bool.npy") == (ids > 0)).all()
    wide = np.array([[0, 255, 300]], np.uint16)
    write_mask(wide, tmp_path / "wide.png")
    assert (read_mask(tmp_path / "wide.png") == wide).all()


def test_a_voc_palette_is_read_as_ids_not_as_grey(tmp_path):
    """Read as grey, 1 and 255 of VOC's palette become 38 and 220."""
    write_mask(np.array([[0, 1, 255]], np.uint8), tmp_path / "x.png")
    with Image.open(tmp_path / "x.png") as image:
        grey = np.asarray(image.convert("L"))
    assert grey.tolist() == [[0, 38, 220]]
    assert read_mask(tmp_path / "x.png").tolist() == [[0, 1, 255]]


def test_two_level_masks(tmp_path):
    Image.fromarray(np.array([[0, 255, 255]], np.uint8)).save(tmp_path / "x.png")
    assert read_mask(tmp_path / "x.png").tolist() == [[0, 255, 255]]
    assert read_mask(tmp_path / "x.png", "binary").tolist() == [[0, 1, 1]]
    assert read_mask(tmp_path / "x.png", "auto").tolist() == [[0, 1, 1]]
    Image.fromarray(np.array([[0, 90, 200]], np.uint8)).save(tmp_path / "soft.png")
    assert read_mask(tmp_path / "soft.png", "binary").tolist() == [[0, 0, 1]]
    Image.fromarray(np.array([[0, 1, 255]], np.uint8)).save(tmp_path / "ids.png")
    assert read_mask(tmp_path / "ids.png", "auto").tolist() == [[0, 1, 255]]


def test_colour_coded_masks(tmp_path):
    rgb = np.array([[[0, 0, 0], [250, 50, 83], [61, 61, 245]]], np.uint8)
    path = saved(tmp_path / "x.png", rgb)
    colours = {(0, 0, 0): 0, (250, 50, 83): 1, (61, 61, 245): 255}
    assert read_mask(path, colours=colours).tolist() == [[0, 1, 255]]
    with pytest.raises(RepriError, match=r"x.png is painted in colours and \(61, 61, 245\) is not in the colour map"):
        read_mask(path, colours={(0, 0, 0): 0, (250, 50, 83): 1})
    with pytest.raises(RepriError, match="needs a colour map"):
        read_mask(path)
    grey = saved(tmp_path / "grey.png", np.array([[[0] * 3, [2] * 3]], np.uint8))
    assert read_mask(grey).tolist() == [[0, 2]]


def test_sizes_must_agree():
    size = (40, 60)
    check_same_size(size, np.zeros((40, 60)), "a.jpg", "a.png")
    with pytest.raises(RepriError, match=r"a.png is 50×40 and its image a.jpg is 60×40: a mask must"):
        check_same_size(size, np.zeros((40, 50)), "a.jpg", "a.png")
    with pytest.raises(RepriError, match="sides exchanged: where EXIF turns"):
        check_same_size(size, np.zeros((60, 40)), "a.jpg", "a.png")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"x", "x.npy is damaged or holds no array of numbers"),
        (np.zeros((3, 3)), r"whole-number array \[H, W\], found float64"),
        (np.zeros((3, 3, 2), np.uint8), r"whole-number array \[H, W\], found uint8 \(3, 3, 2\)"),
        (np.array([[0, 70000]]), "class ids must lie in 0…65535, found 0…70000"),
    ],
)
def test_arrays_that_are_no_masks(tmp_path, content, message):
    path = tmp_path / "x.npy"
    path.write_bytes(content) if isinstance(content, bytes) else np.save(path, content)
    with pytest.raises(RepriError, match=message) as caught:
        read_mask(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def test_ids_that_no_png_holds_are_not_written(tmp_path):
    with pytest.raises(RepriError, match="class ids must lie in 0…65535, got -1…3"):
        write_mask(np.array([[-1, 3]]), tmp_path / "x.png")


def test_notes_are_kept_in_the_file(tmp_path):
    write_mask(np.zeros((2, 2), np.uint8), tmp_path / "x.png", {"author": "me"})
    with Image.open(tmp_path / "x.png") as image:
        assert image.info["author"] == "me"


def test_the_bytes_of_a_mask_are_those_of_its_file(tmp_path):
    mask = np.array([[0, 1], [20, 255]], np.uint8)
    write_mask(mask, tmp_path / "a.png")
    (tmp_path / "b.png").write_bytes(palette_png(mask))
    assert (read_mask(tmp_path / "b.png") == mask).all()
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()
