import pwd

import pytest

from repri.runtime.files import atomic, cache_folder, check_cache, check_writable


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
    with pytest.raises(ValueError, match=r"Cannot write .*file/x.png"):
        check_writable(tmp_path / "file" / "x.png")


def test_a_cache_that_cannot_be_written(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("REPRI_CACHE", str(tmp_path / "file"))
    with pytest.raises(
        ValueError, match=r"The cache .*file cannot be written \(.*\): set REPRI_CACHE to a folder that can"
    ):
        check_cache()


def test_nobody_has_no_home(tmp_path, monkeypatch):
    def unknown(uid):
        raise KeyError(uid)

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    for name in ("HOME", "XDG_CACHE_HOME", "REPRI_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert cache_folder().parent == tmp_path
    check_cache()
