import pytest

from repri.files import atomic, check_writable


def test_a_file_appears_whole_or_not_at_all(tmp_path):
    path = tmp_path / "new" / "result.json"
    with atomic(path) as temporary:
        temporary.write_text("{}")
        assert not path.exists()
        assert temporary.suffix == ".json"
    assert path.read_text() == "{}"

    def fail():
        with atomic(path) as temporary:
            temporary.write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert path.read_text() == "{}"
    assert list(path.parent.iterdir()) == [path]


def test_places_that_cannot_be_written_are_named(tmp_path):
    with pytest.raises(ValueError, match="it is a folder"):
        check_writable(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match=r"cannot write .*file/x.png"):
        check_writable(tmp_path / "file" / "x.png")
