"""Text and JSON files."""

import pytest

from repri.data.io.files import forget_json, read_json, read_lines
from repri.runtime.errors import RepriError


def test_lines_with_a_byte_order_mark(tmp_path):
    (tmp_path / "x.txt").write_bytes(b"\xef\xbb\xbfcat\n\ndog\n")
    assert read_lines(tmp_path / "x.txt") == ["cat", "", "dog"]


def test_files_that_are_no_text(tmp_path):
    (tmp_path / "x.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(RepriError, match=r"x.txt is not a text file in UTF-8"):
        read_lines(tmp_path / "x.txt")
    with pytest.raises(RepriError, match=r"cannot read .*gone.txt: No such file"):
        read_lines(tmp_path / "gone.txt")
    with pytest.raises(RepriError, match=r"cannot read .*gone.json: No such file"):
        read_json(tmp_path / "gone.json")


def test_a_file_that_changed_is_read_again(tmp_path):
    path = tmp_path / "x.json"
    path.write_text("[1]")
    first = read_json(path)
    assert read_json(path) is first
    path.write_text("[1, 2]")
    assert read_json(path) == [1, 2]
    forget_json()
    assert read_json(path) == [1, 2]
