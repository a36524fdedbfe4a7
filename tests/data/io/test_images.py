"""Every kind of image that people have, and the sentence about each file that cannot be read."""

import numpy as np
import pytest
from PIL import Image

from repri.data.io.images import list_images, read_image, upright_size
from repri.runtime.errors import RepriError
from tests.data.make import save_image


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
    assert upright_size(path) == (40, 60)


@pytest.fixture(scope="module")
def bad_files(tmp_path_factory):
    """A folder of files that cannot be read, and a whole one."""
    folder = tmp_path_factory.mktemp("bad")
    save_image(folder / "whole.jpg")
    whole = (folder / "whole.jpg").read_bytes()
    files = {"empty.jpg": b"", "text.jpg": b"not an image", "truncated.jpg": whole[: len(whole) // 2]}
    for name, content in files.items():
        (folder / name).write_bytes(content)
    (folder / "folder.jpg").mkdir()
    Image.new("1", (20000, 10000)).save(folder / "large.png")
    return folder


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing.jpg", "missing.jpg does not exist"),
        ("empty.jpg", r"is empty \(0 bytes\)"),
        ("text.jpg", "cannot be read as an image"),
        ("truncated.jpg", "cannot be read as an image .*truncated"),
        ("folder.jpg", "is a folder, not a file"),
        ("large.png", "has 200000000 pixels, the limit is 178,956,970"),
    ],
)
def test_a_file_that_cannot_be_read_gives_one_sentence(bad_files, name, message):
    with pytest.raises(RepriError, match=message) as caught:
        read_image(bad_files / name)
    assert str(caught.value).startswith(str(bad_files / name))
    assert "\n" not in str(caught.value)


def test_a_decompression_bomb_is_refused_before_it_is_decoded(bad_files):
    with pytest.raises(RepriError, match="the limit is 100"):
        read_image(bad_files / "whole.jpg", max_pixels=100)


def test_images_of_a_folder(tmp_path):
    for name in ("b.JPG", "a.png", ".hidden.png", "below/c.png"):
        save_image(tmp_path / name)
    (tmp_path / "notes.txt").write_text("no image")
    assert [path.name for path in list_images(tmp_path)] == ["a.png", "b.JPG"]
    with pytest.raises(RepriError, match=r"there is no folder .*nowhere"):
        list_images(tmp_path / "nowhere")
