"""PASCAL-5i from archives in the publishers' layouts."""

import subprocess
import sys

import numpy as np
import pytest

from repri.data.datasets.open import open_dataset
from repri.data.datasets.verify import doubled_images, verify
from repri.data.fetch import Downloads, get_pascal
from repri.data.io.masks import read_mask, write_mask
from repri.runtime.errors import RepriError

from .conftest import VOC_VAL


@pytest.fixture
def root(tmp_path):
    return tmp_path / "pascal"


@pytest.fixture
def downloads(root, sources):
    return Downloads(root, sources=sources)


def test_from_download_to_lists(root, sources, monkeypatch):
    steps = []
    get_pascal(Downloads(root, lambda *step: steps.append(step), sources=sources))
    train = open_dataset("pascal", root, "train")
    val = open_dataset("pascal", root)
    # SBD's training images outside VOC's validation set, then VOC's that are not among them
    assert [s.id for s in train.samples] == ["2008_000008", "2008_000015", "2007_000032"]
    assert [s.id for s in val.samples] == VOC_VAL
    assert (root / "lists/pascal/trainaug.txt").read_text().count("\n") == 4
    # VOC's mask where there is one, with its void; SBD's where not
    assert np.unique(train.mask("2008_000008")).tolist() == [0, 5, 255]
    assert np.unique(train.mask("2008_000015")).tolist() == [0, 9]
    assert verify(train).usable
    assert verify(val).usable
    assert doubled_images([train, val]) == []
    assert not list((root / "archives").glob("*.t*r"))  # the large ones are gone once unpacked
    assert not (root / "Annotations").exists()
    assert {what for what, *_ in steps} == {
        "get VOCtrainval_11-May-2012.tar",
        "unpack VOCtrainval_11-May-2012.tar",
        "get benchmark.tgz",
        "unpack benchmark.tgz",
        "get train_noval.txt",
        "write SegmentationClassAug",
    }
    monkeypatch.setenv("REPRI_OFFLINE", "1")
    get_pascal(Downloads(root, sources=sources))  # nothing is fetched twice


def test_an_interrupted_get_goes_on(root, downloads, monkeypatch):
    written = []

    def break_off(mask, path):
        if len(written) == 2:
            raise ValueError("pulled the plug")
        written.append(path)
        write_mask(mask, path)

    with monkeypatch.context() as patch:
        patch.setattr("repri.data.fetch.pascal.write_mask", break_off)
        with pytest.raises(ValueError, match="pulled the plug"):
            get_pascal(downloads)
    assert not (root / "lists").exists()  # not taken for complete
    with pytest.raises(RepriError, match="is not laid out as pascal"):
        open_dataset("pascal", root)
    get_pascal(downloads)
    assert verify(open_dataset("pascal", root, "train")).usable


def test_lists_of_the_users_own(root, downloads, tmp_path):
    mine = tmp_path / "mine.txt"
    mine.write_text("JPEGImages/2008_000015.jpg SegmentationClassAug/2008_000015.png\n")
    get_pascal(downloads, lists={"train": mine})
    assert (root / "lists/pascal/train.txt").read_text() == mine.read_text()
    with pytest.raises(RepriError, match=r"cannot read .*gone.txt"):
        get_pascal(downloads, lists={"train": tmp_path / "gone.txt"})


LIMITED = """
import resource, sys
from pathlib import Path
from repri.data.fetch.downloads import Downloads
from repri.data.fetch.pascal import prepare_pascal
resource.setrlimit(resource.RLIMIT_FSIZE, (60, 60))  # no file may grow beyond: as on a disk that is full
try:
    prepare_pascal(Downloads(Path(sys.argv[1])), Path(sys.argv[1]) / "archives" / "train_noval.txt")
except ValueError as error:
    print(error)
"""


def test_a_full_disk_leaves_nothing_half_written(root, downloads):
    get_pascal(downloads)
    for file in [*(root / "SegmentationClassAug").iterdir(), *(root / "lists/pascal").iterdir()]:
        file.unlink()
    done = subprocess.run([sys.executable, "-c", LIMITED, str(root)], capture_output=True, text=True)
    assert "Cannot write" in done.stdout, done.stderr
    assert "make room and run it again" in done.stdout
    assert list((root / "SegmentationClassAug").iterdir()) == []
    assert list((root / "lists/pascal").iterdir()) == []
    get_pascal(downloads)
    assert len(open_dataset("pascal", root, "train")) == 3
    assert read_mask(root / "SegmentationClassAug" / "2007_000032.png").shape == (64, 64)


def test_damaged_parts_are_named(root, downloads):
    get_pascal(downloads)
    (root / "SegmentationClassAug" / "2008_000015.png").unlink()
    whole = (root / "sbd" / "2008_000015.mat").read_bytes()
    (root / "sbd" / "2008_000015.mat").write_bytes(b"MATLAB no more")
    with pytest.raises(RepriError, match=r"2008_000015.mat is not an SBD mask"):
        get_pascal(downloads)
    (root / "sbd" / "2008_000015.mat").write_bytes(whole)
    (root / "ImageSets" / "Segmentation" / "val.txt").write_text("")
    with pytest.raises(RepriError, match=r"val.txt is empty: get it again"):
        get_pascal(downloads)
