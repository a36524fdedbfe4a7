"""The images that a text means."""

import pytest

from repri.data.io.queries import find_queries, same_files
from repri.runtime.errors import RepriError
from tests.data.make import save_image


@pytest.fixture
def folder(tmp_path):
    for seed, name in enumerate(("b.png", "a.jpg", "day1/a.jpg", ".trash/c.png")):
        save_image(tmp_path / name, seed=seed)
    (tmp_path / "notes.txt").write_text("# those of today\nb.png\n\nday1/a.jpg\n")
    return tmp_path


def test_one_image_a_folder_a_pattern_and_a_list(folder):
    assert find_queries(str(folder / "b.png")) == {"b": folder / "b.png"}
    assert list(find_queries(str(folder))) == ["a", "b", "day1/a"]
    assert find_queries(f"{folder}/?.png") == {"b": folder / "b.png"}
    assert find_queries(str(folder / "notes.txt")) == {"b": folder / "b.png", "a": folder / "day1" / "a.jpg"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gone", "gone does not exist: give an image, a folder, a pattern or a .txt list"),
        ("*.gif", "no image matches .*gif"),
        ("empty", r"empty holds no images \(.jpg"),
        ("empty.txt", r"empty.txt names no images: write one path on each line"),
        ("**/a.jpg", r"a.jpg and .*day1/a.jpg would both be written as 'a'"),
    ],
)
def test_texts_that_mean_nothing(folder, text, message):
    (folder / "empty").mkdir()
    (folder / "empty.txt").write_text("# nothing\n")
    with pytest.raises(RepriError, match=message):
        find_queries(str(folder / text))


def test_copies_are_recognised_by_their_content(folder):
    (folder / "copy.png").write_bytes((folder / "b.png").read_bytes())
    queries = find_queries(str(folder)) | {"gone": folder / "gone.png"}
    assert same_files(queries, [folder / "b.png"]) == ["b", "copy"]
