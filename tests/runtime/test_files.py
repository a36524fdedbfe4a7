import errno
import os
import pwd
import subprocess
import sys
import threading
import time

import pytest

from repri.runtime.errors import RepriError
from repri.runtime.files import (
    atomic,
    cache_folder,
    check_cache,
    check_writable,
    new_folder,
    private_folder,
    remove_leftovers,
)


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


def test_a_check_leaves_no_folder(tmp_path):
    check_writable(tmp_path / "a" / "b" / "x.png")
    assert list(tmp_path.iterdir()) == []
    check_writable(tmp_path / "a" / "b" / "x.png", make=True)
    assert (tmp_path / "a" / "b").is_dir()


def test_what_a_killed_process_left_is_removed(tmp_path):
    script = f"""
import os
from pathlib import Path
from repri.runtime.files import atomic, new_folder
with atomic(Path({str(tmp_path)!r}) / "x.png") as one, new_folder(Path({str(tmp_path)!r}) / "y") as two:
    (two / "part").write_text("half")
    one.write_text("half")
    os.kill(os.getpid(), 9)
"""
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == -9
    assert len(list(tmp_path.iterdir())) == 2
    with atomic(tmp_path / "deeper" / "z.png"):
        remove_leftovers(tmp_path / "deeper")  # one that is being written stays
    assert len(list(tmp_path.iterdir())) == 3
    old, young, foreign = (".999999999-34.png", f".{os.getpid()}-78.png", ".repri-00000000-1-12345678.png")
    old, young, foreign = (tmp_path / name for name in (old, young, foreign))
    for path in (old, young, foreign):
        path.write_text("")
    remove_leftovers(tmp_path, below=True)
    assert set(tmp_path.iterdir()) == {young, foreign, tmp_path / "deeper"}
    os.utime(foreign, (time.time() + 1e6,) * 2)  # by a clock that is wrong
    remove_leftovers(tmp_path)
    assert not foreign.exists()


def test_many_writers_of_one_file(tmp_path):
    def write(text):
        for _ in range(50):
            with atomic(tmp_path / "x.txt") as temporary:
                temporary.write_text(text * 1000)

    threads = [threading.Thread(target=write, args=(letter,)) for letter in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set((tmp_path / "x.txt").read_text())) == 1
    assert list(tmp_path.iterdir()) == [tmp_path / "x.txt"]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_a_full_disk_is_named(tmp_path, code):
    def write(where):
        with where(tmp_path / "x") as temporary:
            raise OSError(code, os.strerror(code), str(temporary))

    for where in (atomic, new_folder):
        with pytest.raises(RepriError, match=f"Cannot write .*x: {os.strerror(code)}; make room and run it again"):
            write(where)
    assert list(tmp_path.iterdir()) == []


def test_folders_for_code_belong_to_the_user_alone(tmp_path):
    folder = private_folder(tmp_path / "own")
    assert folder is not None
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o777)
    assert private_folder(tmp_path / "own") == folder
    assert folder.stat().st_mode & 0o777 == 0o700
    (tmp_path / "link").symlink_to(folder)
    assert private_folder(tmp_path / "link") is None
    (tmp_path / "file").write_text("")
    assert private_folder(tmp_path / "file") is None
    tmp_path.chmod(0o777)
    assert private_folder(tmp_path / "own") is None  # somebody else could exchange it
    tmp_path.chmod(0o1777)
    assert private_folder(tmp_path / "own") == folder
    if os.getuid() == 0:
        os.chown(folder, 12345, -1)
        assert private_folder(tmp_path / "own") is None
