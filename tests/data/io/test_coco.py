"""COCO's files and the masks that are drawn from them."""

import json

import numpy as np
import pytest

from repri.data.fetch.coco import coco_ids
from repri.data.io.coco import CocoImage, draw_mask, read_annotations
from repri.data.io.masks import read_mask
from repri.data.io.segmentations import decode, encode
from repri.runtime.errors import RepriError

SQUARE, REST = [10, 10, 30, 10, 30, 30, 10, 30], [40, 10, 50, 10, 50, 20, 40, 20]
INNER = [12, 12, 16, 12, 16, 16, 12, 16]
CROWD = {"segmentation": {"counts": [0, 64 * 12, 64 * 52], "size": [64, 64]}, "iscrowd": 1, "category_id": 1}
IMAGE = CocoImage(
    "a.jpg",
    64,
    64,
    (
        {"segmentation": [INNER], "category_id": 90},
        {"segmentation": [SQUARE, REST], "category_id": 3},
        {"segmentation": [SQUARE], "category_id": 7},
        CROWD,
    ),
)
IDS = {1: 1, 3: 3, 90: 80}


def test_all_polygons_with_small_objects_on_top():
    mask = draw_mask(IMAGE, IDS)
    assert mask[13, 13] == 80  # the smaller object, although the larger one comes later
    assert mask[25, 25] == mask[15, 45] == 3  # both polygons
    assert (mask[:, :10] == 255).all()  # the crowd
    assert mask[11, 11] == 3  # lies under the objects
    assert set(np.unique(mask)) == {0, 3, 80, 255}  # the category 7 is left out


def test_the_first_polygon_only():
    mask = draw_mask(IMAGE, IDS, first_polygon_only=True)
    assert mask[13, 13] == mask[25, 25] == 3  # later objects over earlier ones
    assert mask[15, 45] == 0
    assert (mask != 255).all()


def test_objects_without_an_outline_are_named():
    bare = IMAGE._replace(objects=({"id": 5, "segmentation": [], "category_id": 1},))
    with pytest.raises(RepriError, match=r"a.jpg: object 5 has no outline to draw a mask from"):
        draw_mask(bare, IDS)
    assert not draw_mask(bare, IDS, first_polygon_only=True).any()


def test_run_lengths_in_both_spellings():
    region = np.random.default_rng(0).random((20, 30)) < 0.5
    code = encode(region)
    assert (decode(code, 20, 30) == region).all()
    assert (decode(code | {"counts": code["counts"].encode()}, 20, 30) == region).all()
    edges = np.flatnonzero(np.diff(region.T.ravel(), prepend=False, append=not region.T.ravel()[-1]))
    assert (decode(code | {"counts": np.diff(edges, prepend=0).tolist()}, 20, 30) == region).all()


def test_lvis_names_images_by_their_address(tmp_path):
    image = {"id": 1, "coco_url": "http://images.cocodataset.org/train2017/000000391895.jpg", "height": 4, "width": 6}
    content = {"images": [image], "annotations": [], "categories": [{"id": 1, "name": "cat"}]}
    (tmp_path / "x.json").write_text(json.dumps(content))
    assert read_annotations(tmp_path / "x.json").images[0].file == "train2017/000000391895.jpg"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"height": "4"}, "image 1 has the file 'a.jpg' and the size 6×'4'"),
        ({"height": 10**9}, "image 1 has 6×1000000000 pixels, the limit is 178,956,970"),
    ],
)
def test_images_of_impossible_sizes(tmp_path, change, message):
    image = {"id": 1, "file_name": "a.jpg", "height": 4, "width": 6} | change
    content = {"images": [image], "annotations": [], "categories": [{"id": 1, "name": "cat"}]}
    (tmp_path / "x.json").write_text(json.dumps(content))
    with pytest.raises(RepriError, match=f"is not COCO's annotation format .{message}"):
        read_annotations(tmp_path / "x.json")


def test_real_masks_are_drawn_again(test_data):
    root = test_data / "data" / "coco_micro"
    annotations = read_annotations(root / "instances_micro.json")
    ids = coco_ids(annotations, root)
    assert list(ids.values()) == list(range(1, 81))  # by name is by order of category ids
    same = pixels = 0
    for image in annotations.images:
        mask = draw_mask(image, ids)
        same += (mask == read_mask(root / "masks" / f"{image.stem}.png")).sum()
        pixels += mask.size
    assert same / pixels >= 0.995
    assert (draw_mask(annotations.images[0], ids, first_polygon_only=True) != 255).all()
