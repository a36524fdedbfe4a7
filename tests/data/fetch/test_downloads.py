"""Fetching the publishers' archives."""

import pytest

from repri.data.fetch import Downloads, get_pascal
from repri.runtime.errors import RepriError


def test_another_archive_is_refused(sources, tmp_path):
    wrong = sources | {"sbd": sources["sbd"]._replace(digest="md5:0123456789abcdef")}
    with pytest.raises(ValueError, match=r"has the md5 .* and should have 0123456789abcdef"):
        get_pascal(Downloads(tmp_path / "pascal", sources=wrong))
    swapped = sources | {"voc": sources["coco-val"]}
    with pytest.raises(RepriError, match="holds none of the expected files: it is another archive"):
        get_pascal(Downloads(tmp_path / "other", sources=swapped))


def test_a_disk_that_is_too_small(sources, tmp_path):
    huge = sources | {"voc": sources["voc"]._replace(size=10**18)}
    with pytest.raises(RepriError, match=r"needs 1000000000.0 GB, .* GB free: make room"):
        Downloads(tmp_path, sources=huge).fetch("voc")


def test_a_mirror_offers_the_same_files(server, sources, tmp_path):
    elsewhere = {name: archive._replace(url=f"http://127.0.0.1:9/{archive.file}") for name, archive in sources.items()}
    steps = []
    downloads = Downloads(tmp_path, lambda *step: steps.append(step), f"{server[1]}/", elsewhere)
    path = downloads.fetch("sbd-train")
    assert path == tmp_path / "archives" / "train_noval.txt"
    assert path.read_bytes() == (server[0] / "train_noval.txt").read_bytes()
    assert steps[-1] == ("get train_noval.txt", path.stat().st_size, path.stat().st_size)
    downloads.remove("sbd-train", "voc")
    assert not path.exists()
