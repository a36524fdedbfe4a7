"""VOC's folders and CVAT's label maps."""

import numpy as np
import pytest
from PIL import Image

from repri.data.io.annotations import Annotations
from repri.data.io.formats import read_annotated, write_annotated
from repri.data.io.masks import write_mask
from repri.runtime.errors import RepriError
from tests.data.make import save_image

from .make import annotated


def test_cvat_masks_by_their_label_map(tmp_path):
    """Colours decide, not the order of a palette."""
    (tmp_path / "SegmentationClass").mkdir()
    lines = ["# label:color_rgb:parts:actions", "background:0,0,0::", "cat:250,50,83::", "dog:61,61,245::"]
    (tmp_path / "labelmap.txt").write_text("\n".join(lines) + "\n")
    rgb = np.zeros((40, 60, 3), np.uint8)
    rgb[:10], rgb[20:30] = (61, 61, 245), (250, 50, 83)
    Image.fromarray(rgb).save(tmp_path / "SegmentationClass" / "a.png")
    save_image(tmp_path / "photos" / "a.png")
    annotations = read_annotated(tmp_path, images=tmp_path / "photos")
    mask = annotations.images[0].ids(annotations.ids)
    assert annotations.classes == ("cat", "dog")
    assert (mask[:10] == 2).all()
    assert (mask[20:30] == 1).all()
    assert annotations.images[0].image.is_file()
    (tmp_path / "labelmap.txt").write_text("cat 250,50,83\n")
    with pytest.raises(RepriError, match=r"labelmap.txt, line 1: expected `name:r,g,b::`"):
        read_annotated(tmp_path)
    (tmp_path / "labelmap.txt").write_text("background:0,0,0::\n")
    with pytest.raises(RepriError, match=r"labelmap.txt names no class"):
        read_annotated(tmp_path)


def test_without_a_label_map_the_classes_are_those_of_voc(tmp_path):
    write_mask(np.array([[0, 12, 255]], np.uint8), tmp_path / "SegmentationClass" / "a.png")
    annotations = read_annotated(tmp_path)
    assert annotations.classes[11] == "dog"
    assert annotations.images[0].ids(annotations.ids).tolist() == [[0, 12, 255]]


def test_too_many_classes_for_the_palette(tmp_path):
    many = Annotations(tuple(f"c{n}" for n in range(255)), annotated(tmp_path).images)
    with pytest.raises(RepriError, match="255 classes do not fit the 254 of VOC's palette: write coco instead"):
        write_annotated(many, tmp_path / "out", "voc")
