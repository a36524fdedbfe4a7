"""Getting data sets, from archives in the publishers' layouts on a server on this machine."""

import hashlib
import io
import json
import subprocess
import sys
import tarfile
import threading
import zipfile
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from repri.data.datasets.folds import COCO
from repri.data.datasets.open import open_dataset
from repri.data.datasets.verify import doubled_images, verify
from repri.data.fetch.archives import extract
from repri.data.fetch.get import SOURCES, Archive, get_coco, get_pascal
from repri.data.io.images import read_mask

from .make import block, picture

pytest.importorskip("scipy")


def jpeg(seed):
    data = io.BytesIO()
    Image.fromarray(picture(64, 64, seed)).save(data, "JPEG")
    return data.getvalue()


def palette_png(mask):
    from repri.data.io.images import _PALETTE

    image = Image.fromarray(mask).convert("L")
    image.putpalette(_PALETTE)
    data = io.BytesIO()
    image.save(data, "PNG")
    return data.getvalue()


def sbd_mat(mask):
    """The struct GTcls of SBD's cls/*.mat."""
    from scipy.io import savemat

    data = io.BytesIO()
    savemat(data, {"GTcls": {"Boundaries": np.zeros(1), "Segmentation": mask, "CategoriesPresent": np.unique(mask)}})
    return data.getvalue()


VOC_TRAIN, VOC_VAL = ["2007_000032", "2008_000008"], ["2007_000033", "2008_000100"]
SBD_TRAIN, SBD_VAL = ["2008_000008", "2008_000015", "2008_000100"], ["2009_000001"]


def voc_files():
    base = "VOCdevkit/VOC2012"
    for seed, id in enumerate(sorted({*VOC_TRAIN, *VOC_VAL, *SBD_TRAIN, *SBD_VAL})):
        yield f"{base}/JPEGImages/{id}.jpg", jpeg(seed)
        yield f"{base}/Annotations/{id}.xml", b"<annotation/>"
    for id in VOC_TRAIN + VOC_VAL:
        mask = block(64, 64, 5, 2100)
        mask[-1] = 255
        yield f"{base}/SegmentationClass/{id}.png", palette_png(mask)
        yield f"{base}/SegmentationObject/{id}.png", palette_png(mask)
    for name, ids in (("train", VOC_TRAIN), ("val", VOC_VAL), ("trainval", VOC_TRAIN + VOC_VAL)):
        yield f"{base}/ImageSets/Segmentation/{name}.txt", "".join(f"{id}\n" for id in ids).encode()
    yield f"{base}/ImageSets/Main/train.txt", b"2008_000008\n"


def sbd_files():
    base = "benchmark_RELEASE/dataset"
    for id in SBD_TRAIN + SBD_VAL:
        yield f"{base}/cls/{id}.mat", sbd_mat(block(64, 64, 9, 2200))
        yield f"{base}/inst/{id}.mat", b"instances"
        yield f"{base}/img/{id}.jpg", b"the same pictures as VOC's"
    yield f"{base}/train.txt", "".join(f"{id}\n" for id in SBD_TRAIN).encode()
    yield f"{base}/val.txt", "".join(f"{id}\n" for id in SBD_VAL).encode()


def tar(path, files, mode):
    with tarfile.open(path, mode) as archive:
        folders = set()
        for name, content in files:
            parent = str(Path(name).parent)
            if parent not in folders:  # real archives hold their folders too
                folders.add(parent)
                entry = tarfile.TarInfo(parent)
                entry.type = tarfile.DIRTYPE
                archive.addfile(entry)
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))


COCO_IDS = {"train": (9, 25, 30), "val": (42, 73)}


def coco_json(split):
    square = [10.0, 10.0, 30.0, 10.0, 30.0, 30.0, 10.0, 30.0]
    rest = [40.0, 10.0, 50.0, 10.0, 50.0, 20.0, 40.0, 20.0]
    inner = [12.0, 12.0, 16.0, 12.0, 16.0, 16.0, 12.0, 16.0]
    images, objects = [], []
    for id in COCO_IDS[split]:
        images.append({"id": id, "file_name": f"COCO_{split}2014_{id:012}.jpg", "height": 64, "width": 64})
        counts = [0, 64 * 4, 64 * 60]  # the four leftmost columns
        crowd = {"segmentation": {"counts": counts, "size": [64, 64]}, "iscrowd": 1, "category_id": 1, "area": 256}
        small = {"segmentation": [inner], "iscrowd": 0, "category_id": 90, "area": 16}
        large = {"segmentation": [square, rest], "iscrowd": 0, "category_id": 3, "area": 500}
        drawn = [crowd] if id == 30 else [small, large, crowd]
        objects += [entry | {"id": len(objects) + n, "image_id": id} for n, entry in enumerate(drawn)]
    categories = [{"id": n, "name": name} for n, name in zip(coco_category_ids(), COCO, strict=True)]
    return {"images": images, "annotations": objects, "categories": categories}


def coco_category_ids():
    gone = {12, 26, 29, 30, 45, 66, 68, 69, 71, 83}
    return [id for id in range(1, 91) if id not in gone]


@pytest.fixture
def published(tmp_path):
    """A server with tiny archives, and the sources that describe them."""
    folder = tmp_path / "server"
    folder.mkdir()
    tar(folder / "VOCtrainval_11-May-2012.tar", voc_files(), "w")
    tar(folder / "benchmark.tgz", sbd_files(), "w:gz")
    (folder / "train_noval.txt").write_text("2008_000008\n2008_000015\n")
    for split in ("train", "val"):
        with zipfile.ZipFile(folder / f"{split}2014.zip", "w") as archive:
            archive.writestr(f"{split}2014/", b"")
            for id in COCO_IDS[split]:
                archive.writestr(f"{split}2014/COCO_{split}2014_{id:012}.jpg", jpeg(id))
    with zipfile.ZipFile(folder / "annotations_trainval2014.zip", "w") as archive:
        for split in ("train", "val"):
            archive.writestr(f"annotations/instances_{split}2014.json", json.dumps(coco_json(split)))
            archive.writestr(f"annotations/captions_{split}2014.json", "{}")
    handler = type("Quiet", (SimpleHTTPRequestHandler,), {"log_message": lambda *_: None})
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(handler, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield folder, sources_of(folder, f"http://127.0.0.1:{server.server_port}")
        server.shutdown()


def sources_of(folder, url):
    sources = {}
    for name, archive in SOURCES.items():
        content = (folder / archive.file).read_bytes()
        kind = "md5" if archive.digest.startswith("md5:") else "sha256"
        digest = hashlib.new(kind, content).hexdigest()
        sources[name] = Archive(f"{url}/{archive.file}", f"md5:{digest}" if kind == "md5" else digest, len(content))
    return sources


def test_pascal_from_download_to_tasks(published, tmp_path):
    folder, sources = published
    root, steps = tmp_path / "pascal", []
    get_pascal(root, lambda *step: steps.append(step), sources)
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
    for name in ("VOCtrainval_11-May-2012.tar", "benchmark.tgz"):
        (folder / name).unlink()
    get_pascal(root, sources=sources)  # nothing is fetched twice


def test_coco_from_download_to_masks_of_both_styles(published, tmp_path):
    _, sources = published
    root = tmp_path / "coco"
    get_coco(root, sources=sources, keep_archives=True)
    assert (root / "archives" / "train2014.zip").is_file()
    train = open_dataset("coco", root, "train")
    assert [s.id for s in train.samples] == ["COCO_train2014_000000000009", "COCO_train2014_000000000025"]
    mask = train.mask("COCO_train2014_000000000009")
    assert mask[13, 13] == 80  # category 90 is the 80th; the smaller one lies on top though it was drawn first
    assert mask[25, 25] == mask[15, 45] == 3  # both polygons
    assert (mask[:, :4] == 255).all()
    official = open_dataset("coco", root, "train", "official")
    mask = official.mask("COCO_train2014_000000000009")
    assert mask[13, 13] == mask[25, 25] == 3  # the later over the earlier
    assert mask[15, 45] == 0  # the first polygon alone
    assert (mask[:, :4] == 0).all()
    assert len(open_dataset("coco", root)) == 2
    assert all(
        verify(open_dataset("coco", root, split, p)).usable for split in ("train", "val") for p in ("clean", "official")
    )


def test_an_interrupted_get_goes_on(published, tmp_path, monkeypatch):
    _, sources = published
    root = tmp_path / "pascal"
    written = []

    def break_off(mask, path):
        from repri.data.io.images import write_mask

        if len(written) == 2:
            raise ValueError("pulled the plug")
        written.append(path)
        write_mask(mask, path)

    with monkeypatch.context() as patch:
        patch.setattr("repri.data.fetch.get.write_mask", break_off)
        with pytest.raises(ValueError, match="pulled the plug"):
            get_pascal(root, sources=sources)
    assert not (root / "lists").exists()  # not taken for complete
    with pytest.raises(ValueError, match="is not laid out as pascal"):
        open_dataset("pascal", root)
    get_pascal(root, sources=sources)
    assert verify(open_dataset("pascal", root, "train")).usable


def test_lists_of_ones_own(published, tmp_path):
    _, sources = published
    mine = tmp_path / "mine.txt"
    mine.write_text("JPEGImages/2008_000015.jpg SegmentationClassAug/2008_000015.png\n")
    get_pascal(tmp_path / "pascal", sources=sources, lists={"train": mine})
    assert (tmp_path / "pascal/lists/pascal/train.txt").read_text() == mine.read_text()


def test_another_archive_is_refused(published, tmp_path):
    _, sources = published
    wrong = sources | {"sbd": sources["sbd"]._replace(digest="md5:0123456789abcdef")}
    with pytest.raises(ValueError, match=r"has the md5 .* and should have 0123456789abcdef"):
        get_pascal(tmp_path / "pascal", sources=wrong)
    swapped = sources | {"voc": sources["coco-val"]}
    with pytest.raises(ValueError, match="holds nothing of what was expected"):
        get_pascal(tmp_path / "other", sources=swapped)
    huge = sources | {"voc": sources["voc"]._replace(size=10**18)}
    with pytest.raises(ValueError, match="GB free: make room"):
        get_pascal(tmp_path / "huge", sources=huge)


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
    with pytest.raises(ValueError, match="points outside its folder: it is not unpacked"):
        extract(path, root, lambda name: name)
    assert not list(tmp_path.rglob("evil*"))


def test_links_and_damaged_archives_are_refused(tmp_path):
    path = tmp_path / "x.tar"
    with tarfile.open(path, "w") as archive:
        entry = tarfile.TarInfo("a.jpg")
        entry.type, entry.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(entry)
    with pytest.raises(ValueError, match="as a link or device"):
        extract(path, tmp_path / "root", lambda name: name)
    tar(path, [("a.jpg", np.random.default_rng(0).bytes(200_000))], "w:gz")
    path.write_bytes(path.read_bytes()[:100_000])
    with pytest.raises(ValueError, match=r"(damaged|breaks off).* get it again"):
        extract(path, tmp_path / "root", lambda name: name)
    assert not (tmp_path / "root" / "a.jpg").exists()
    path.write_bytes(b"not an archive")
    with pytest.raises(ValueError, match="is damaged"):
        extract(path, tmp_path / "root", lambda name: name)


LIMITED = """
import resource, sys
from pathlib import Path
from repri.data.get import prepare_pascal
resource.setrlimit(resource.RLIMIT_FSIZE, (60, 60))  # no file may grow beyond: what a full disk does to a mask
try:
    prepare_pascal(Path(sys.argv[1]), Path(sys.argv[1]) / "archives" / "train_noval.txt")
except ValueError as error:
    print(error)
"""


def test_a_full_disk_leaves_nothing_half_written(published, tmp_path):
    _, sources = published
    root = tmp_path / "pascal"
    get_pascal(root, sources=sources)
    for file in [*(root / "SegmentationClassAug").iterdir(), *(root / "lists/pascal").iterdir()]:
        file.unlink()
    done = subprocess.run([sys.executable, "-c", LIMITED, str(root)], capture_output=True, text=True)
    assert "cannot write" in done.stdout, done.stderr
    assert "make room and run it again" in done.stdout
    assert list((root / "SegmentationClassAug").iterdir()) == []
    assert list((root / "lists/pascal").iterdir()) == []
    get_pascal(root, sources=sources)
    assert len(open_dataset("pascal", root, "train")) == 3
    assert read_mask(root / "SegmentationClassAug" / "2007_000032.png").shape == (64, 64)


def test_a_damaged_sbd_mask_is_named(published, tmp_path):
    _, sources = published
    root = tmp_path / "pascal"
    get_pascal(root, sources=sources)
    (root / "SegmentationClassAug" / "2008_000015.png").unlink()
    (root / "sbd" / "2008_000015.mat").write_bytes(b"MATLAB no more")
    with pytest.raises(ValueError, match=r"2008_000015.mat is not an SBD mask"):
        get_pascal(root, sources=sources)
