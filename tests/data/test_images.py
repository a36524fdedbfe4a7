"""Every kind of picture and mask that people have, and what is said of those that cannot be read."""

import numpy as np
import pytest
from PIL import Image

from repri.data.io.images import check_same_size, colour_map, read_image, read_mask, write_mask

from .make import picture


def saved(tmp_path, image, name="x.png", **options):
    path = tmp_path / name
    image.save(path, **options)
    return path


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "YCbCr", "I;16", "I", "F"])
def test_every_mode_becomes_rgb(tmp_path, mode):
    grey = np.tile(np.linspace(0, 255, 60).astype(np.uint8), (40, 1))
    image = Image.fromarray(grey)
    if mode == "I;16":
        image = Image.fromarray(grey.astype(np.uint16) * 257)
    elif mode in ("I", "F"):
        image = Image.fromarray(grey.astype(np.int32 if mode == "I" else np.float32))
    else:
        image = image.convert(mode)
    suffix = "tif" if mode in ("CMYK", "YCbCr", "F", "I") else "png"
    rgb = read_image(saved(tmp_path, image, f"x.{suffix}"))
    assert rgb.shape == (40, 60, 3)
    assert rgb.dtype == np.uint8
    if mode != "1":
        assert np.abs(rgb[..., 0].astype(int) - grey).max() <= 3


@pytest.mark.parametrize(("top", "depth"), [(255, 255), (1000, 1023), (4095, 4095), (9000, 16383), (65535, 65535)])
def test_deep_grey_is_scaled_by_its_depth(tmp_path, top, depth):
    values = np.array([[0, top]], np.uint16)
    rgb = read_image(saved(tmp_path, Image.fromarray(values)))
    assert rgb[0, 1, 0] == round(top * 255 / depth)


def test_transparency_lies_on_white(tmp_path):
    rgba = np.zeros((4, 4, 4), np.uint8)
    rgba[:2, :, 3] = 255
    rgb = read_image(saved(tmp_path, Image.fromarray(rgba)))
    assert (rgb[:2] == 0).all()
    assert (rgb[2:] == 255).all()


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation_is_applied(tmp_path, orientation):
    upright = np.zeros((40, 60, 3), np.uint8)
    upright[:20, :30] = 255  # the bright corner is the top left of what a viewer shows
    undo = {
        1: None,
        2: Image.Transpose.FLIP_LEFT_RIGHT,
        3: Image.Transpose.ROTATE_180,
        4: Image.Transpose.FLIP_TOP_BOTTOM,
        5: Image.Transpose.TRANSPOSE,
        6: Image.Transpose.ROTATE_90,
        7: Image.Transpose.TRANSVERSE,
        8: Image.Transpose.ROTATE_270,
    }[orientation]
    stored = Image.fromarray(upright) if undo is None else Image.fromarray(upright).transpose(undo)
    exif = Image.Exif()
    exif[0x0112] = orientation
    path = saved(tmp_path, stored, "x.jpg", exif=exif, quality=95)
    assert np.abs(read_image(path).astype(int) - upright).max() < 40


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
    path = saved(tmp_path, Image.fromarray(rgb))
    colours = {(0, 0, 0): 0, (250, 50, 83): 1, (61, 61, 245): 255}
    assert read_mask(path, colours=colours).tolist() == [[0, 1, 255]]
    with pytest.raises(ValueError, match=r"x.png is painted in colours and \(61, 61, 245\) is not in the colour map"):
        read_mask(path, colours={(0, 0, 0): 0, (250, 50, 83): 1})
    with pytest.raises(ValueError, match="needs a colour map"):
        read_mask(path)
    grey = saved(tmp_path, Image.fromarray(np.array([[[0] * 3, [2] * 3]], np.uint8)), "grey.png")
    assert read_mask(grey).tolist() == [[0, 2]]


def test_voc_colours():
    assert colour_map()[[0, 1, 2, 15, 20]].tolist() == [
        [0, 0, 0],
        [128, 0, 0],
        [0, 128, 0],
        [192, 128, 128],
        [0, 64, 128],
    ]


def bad_files(tmp_path):
    whole = saved(tmp_path, Image.fromarray(picture()), "whole.jpg").read_bytes()
    files = {
        "empty.jpg": b"",
        "text.jpg": b"not a picture",
        "truncated.jpg": whole[: len(whole) // 2],
        "array.npy": b"x",
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "folder.jpg").mkdir()
    np.save(tmp_path / "float.npy", np.zeros((3, 3)))
    Image.new("1", (20000, 10000)).save(tmp_path / "large.png")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing.jpg", "does not exist"),
        ("empty.jpg", r"is empty \(0 bytes\)"),
        ("text.jpg", "cannot be read as an image"),
        ("truncated.jpg", "cannot be read as an image .*truncated"),
        ("folder.jpg", "is a folder"),
        ("large.png", "has 200000000 pixels, the limit is 178,956,970"),
        ("array.npy", "cannot be read"),
        ("float.npy", r"whole-number array \[H, W\], found float64"),
    ],
)
def test_what_cannot_be_read_is_one_sentence(tmp_path, name, message):
    bad_files(tmp_path)
    read = read_mask if name.endswith(".npy") else read_image
    with pytest.raises(ValueError, match=message) as caught:
        read(tmp_path / name)
    assert str(caught.value).startswith(str(tmp_path / name))
    assert "\n" not in str(caught.value)


def test_a_decompression_bomb_is_refused_before_it_is_decoded(tmp_path):
    bad_files(tmp_path)
    with pytest.raises(ValueError, match="the limit is 100"):
        read_image(tmp_path / "whole.jpg", max_pixels=100)


def test_sizes_must_agree():
    image = picture(40, 60)
    check_same_size(image.shape[:2], np.zeros((40, 60)), "a.jpg", "a.png")
    with pytest.raises(ValueError, match=r"a.png is 50×40 and its image a.jpg is 60×40: a mask must"):
        check_same_size(image.shape[:2], np.zeros((40, 50)), "a.jpg", "a.png")
    with pytest.raises(ValueError, match="sides exchanged: where EXIF turns"):
        check_same_size(image.shape[:2], np.zeros((60, 40)), "a.jpg", "a.png")
