"""COCO-20i from archives in the publishers' layouts."""

import json

import pytest

from repri.data.datasets.open import open_dataset
from repri.data.datasets.verify import verify
from repri.data.fetch import Downloads, get_coco
from repri.data.fetch.coco import coco_ids
from repri.data.io.coco import parse_annotations
from repri.runtime.errors import RepriError

from .conftest import coco_json


def test_from_download_to_both_kinds_of_masks(sources, tmp_path):
    root = tmp_path / "coco"
    get_coco(Downloads(root, sources=sources), keep_archives=True)
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
    for split in ("train", "val"):
        for protocol in ("clean", "official"):
            assert verify(open_dataset("coco", root, split, protocol)).usable
    assert {path.name for path in root.iterdir()} == {
        *("archives", "annotations", "train2014", "val2014", "masks", "masks-official", "lists")
    }


def test_categories_of_another_data_set(tmp_path):
    content = json.loads(json.dumps(coco_json("val")).replace("toothbrush", "broom"))
    with pytest.raises(RepriError, match=r"x.json has the category 'broom', which COCO does not have"):
        coco_ids(parse_annotations(content, tmp_path / "x.json"), tmp_path / "x.json")
