"""List files and folders of classes."""

import pytest

from repri.data.datasets.samples import class_folder_samples, listed_samples
from repri.runtime.errors import RepriError
from tests.data.make import save_image


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"a.jpg a.png\nb.jpg\n", "line 2: expected `image mask`, found 1 words: 'b.jpg'"),
        (b"a.jpg a.png c\n", "line 1: expected `image mask`, found 3"),
        (b"\n", r"the list .*list.txt is empty"),
        (b"a.jpg a.png\na.jpg a.png\n", "two images that go by the name 'a'"),
        (b"\xff\xfe\x00", r"list.txt is not a text file in UTF-8"),
    ],
)
def test_mistakes_in_lists_are_named(tmp_path, text, message):
    (tmp_path / "list.txt").write_bytes(text)
    with pytest.raises(RepriError, match=message):
        listed_samples(tmp_path / "list.txt", tmp_path)


def test_names_that_repeat_are_told_apart(tmp_path):
    (tmp_path / "list.txt").write_text("a/1.jpg a/1.png\n\nb/1.jpg b/1.png\n")
    assert [sample.id for sample in listed_samples(tmp_path / "list.txt", tmp_path)] == ["a/1", "b/1"]


def test_class_folders(tmp_path):
    for name in ("cat/1.jpg", "cat/1.png", "dog/1.jpg"):
        save_image(tmp_path / name)
    samples = class_folder_samples(tmp_path, {"cat": 1, "dog": 2})
    assert [(s.id, s.mask.name, s.class_id) for s in samples] == [("cat/1", "1.png", 1), ("dog/1", "1.png", 2)]
    save_image(tmp_path / "dog" / "1.bmp")
    with pytest.raises(RepriError, match=r"dog has two images that go by the name '1'"):
        class_folder_samples(tmp_path, {"dog": 2})
    (tmp_path / "cow").mkdir()
    with pytest.raises(RepriError, match=r"the class folder .*cow holds no images"):
        class_folder_samples(tmp_path, {"cow": 3})
