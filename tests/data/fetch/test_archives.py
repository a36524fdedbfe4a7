"""Unpacking: nothing leaves its folder, and damage is noticed."""

import tarfile
import zipfile

import numpy as np
import pytest

from repri.data.fetch.archives import extract
from repri.runtime.errors import RepriError

from .conftest import tar


@pytest.mark.parametrize("name", ["../evil.jpg", "/evil.jpg", "a/../../evil.jpg", "..\\evil.jpg"])
@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_archives_that_would_escape_are_refused(tmp_path, name, kind):
    path = tmp_path / f"x.{kind}"
    if kind == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("a/good.jpg", b"1")
            archive.writestr(zipfile.ZipInfo(name), b"1")
    else:
        tar(path, [("a/good.jpg", b"1"), (name, b"1")], "w")
    root = tmp_path / "root"
    with pytest.raises(RepriError, match="points outside its folder: it is not unpacked"):
        extract(path, root, lambda name: name)
    assert not list(tmp_path.rglob("evil*"))


def test_links_and_damaged_archives_are_refused(tmp_path):
    path = tmp_path / "x.tar"
    with tarfile.open(path, "w") as archive:
        entry = tarfile.TarInfo("a.jpg")
        entry.type, entry.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(entry)
    with pytest.raises(RepriError, match="as a link or device"):
        extract(path, tmp_path / "root", lambda name: name)
    tar(path, [("a.jpg", np.random.default_rng(0).bytes(200_000))], "w:gz")
    path.write_bytes(path.read_bytes()[:100_000])
    with pytest.raises(RepriError, match=r"(damaged|breaks off).* get it again"):
        extract(path, tmp_path / "root", lambda name: name)
    assert not (tmp_path / "root" / "a.jpg").exists()
    path.write_bytes(b"not an archive")
    with pytest.raises(RepriError, match="is damaged"):
        extract(path, tmp_path / "root", lambda name: name)


def test_only_wanted_members_that_are_not_there_yet_are_written(tmp_path):
    tar(tmp_path / "x.tar", [("a/1.txt", b"one"), ("a/2.txt", b"two"), ("b/3.txt", b"three")], "w")
    root = tmp_path / "root"
    (root / "new").mkdir(parents=True)
    (root / "new" / "1.txt").write_bytes(b"ONE")  # of the right size: left alone
    (root / "new" / "2.txt").write_bytes(b"tw")
    seen = []
    count = extract(
        tmp_path / "x.tar",
        root,
        lambda name: name.replace("a/", "new/") if name.startswith("a/") else None,
        lambda done, total: seen.append(done / total),
    )
    assert count == 2
    assert sorted(path.name for path in root.rglob("*.txt")) == ["1.txt", "2.txt"]
    assert [(root / "new" / name).read_bytes() for name in ("1.txt", "2.txt")] == [b"ONE", b"two"]
    assert 0 < seen[0] <= seen[-1] <= 1
