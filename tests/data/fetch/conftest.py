"""Tiny archives in the publishers' layouts, on a server on this machine."""

import hashlib
import io
import json
import tarfile
import threading
import zipfile
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from PIL import Image

from repri.data.fetch.downloads import SOURCES, Archive
from repri.data.io.classes import COCO
from repri.data.io.masks import write_mask
from tests.data.make import block, make_image


def jpeg(seed):
    data = io.BytesIO()
    Image.fromarray(make_image(64, 64, seed)).save(data, "JPEG")
    return data.getvalue()


def palette_png(mask):
    with TemporaryDirectory() as folder:
        write_mask(mask, Path(folder) / "x.png")
        return (Path(folder) / "x.png").read_bytes()


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
        yield f"{base}/img/{id}.jpg", b"the same images as VOC's"
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


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """A folder of tiny archives, and the address of the server that offers them."""
    pytest.importorskip("scipy")
    folder = tmp_path_factory.mktemp("server")
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
        yield folder, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="session")
def sources(server):
    """Descriptions of the tiny archives."""
    return sources_of(*server)


def sources_of(folder, url):
    sources = {}
    for name, archive in SOURCES.items():
        content = (folder / archive.file).read_bytes()
        kind = "md5" if archive.digest.startswith("md5:") else "sha256"
        digest = hashlib.new(kind, content).hexdigest()
        sources[name] = Archive(f"{url}/{archive.file}", f"md5:{digest}" if kind == "md5" else digest, len(content))
    return sources
