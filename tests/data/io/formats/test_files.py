"""Images by the names that annotations give them."""

from repri.data.io.formats.files import find_image, json_content
from tests.data.make import save_image


def test_images_are_found_with_or_without_their_folders(tmp_path):
    save_image(tmp_path / "here" / "a.jpg")
    save_image(tmp_path / "data" / "images" / "b.jpg")
    folders = [None, tmp_path / "here", tmp_path / "data"]
    for name in ("a.jpg", "C:\\photos\\a.jpg", "elsewhere/a.jpg"):
        assert find_image(name, folders) == tmp_path / "here" / "a.jpg"
    assert find_image("photos/b.jpg", folders) == tmp_path / "data" / "images" / "b.jpg"
    assert find_image("gone.jpg", folders) == tmp_path / "here" / "gone.jpg"


def test_only_json_files_have_json(tmp_path):
    (tmp_path / "x.txt").write_text("[]")
    (tmp_path / "x.JSON").write_text("[]")
    assert json_content(tmp_path / "x.txt") is json_content(tmp_path) is None
    assert json_content(tmp_path / "x.JSON") == []
