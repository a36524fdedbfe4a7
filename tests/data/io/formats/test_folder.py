"""``images/`` and ``masks/``."""

import numpy as np
import pytest

from repri.data.io.annotations import AnnotatedImage, Annotations, shapes_of
from repri.data.io.formats import read_annotated, write_annotated
from repri.runtime.errors import RepriError
from tests.data.make import block, save_ids, save_image

from .make import NAMES


def test_void_alone_does_not_become_an_object(tmp_path):
    """A mask of 0 and 255 among masks of ids is void; where all are so, 255 is the object."""
    mask = np.zeros((40, 60), np.uint8)
    mask[:5] = 255
    save_image(tmp_path / "images" / "a.jpg")
    one = AnnotatedImage(tmp_path / "images" / "a.jpg", 40, 60, shapes_of(mask, NAMES))
    write_annotated(Annotations(("cat", "dog"), (one,)), tmp_path / "out", "folder")
    back = read_annotated(tmp_path / "out")
    assert set(np.unique(back.images[0].ids(back.ids))) == {0, 255}


def test_two_level_masks_are_one_class(tmp_path):
    save_image(tmp_path / "images" / "a.jpg")
    save_ids(tmp_path / "masks" / "a.png", block(40, 60, 255, 100))
    annotations = read_annotated(tmp_path)
    assert annotations.classes == ("class 1",)
    assert annotations.images[0].ids(annotations.ids).sum() == 100


def test_masks_that_do_not_fit_are_named(tmp_path):
    save_image(tmp_path / "images" / "a.jpg")
    save_ids(tmp_path / "masks" / "a.png", block(40, 50, 1, 100))
    with pytest.raises(RepriError, match=r"a.png is 50×40 and its image .*a.jpg is 60×40"):
        read_annotated(tmp_path)
    save_ids(tmp_path / "masks" / "a.png", block(40, 60, 9, 100))
    (tmp_path / "classes.txt").write_text("cat\ndog\n")
    with pytest.raises(RepriError, match=r"a.png: the mask holds the id 9, the classes have 1, 2"):
        read_annotated(tmp_path)
    (tmp_path / "masks" / "a.png").unlink()
    with pytest.raises(RepriError, match=r"a.jpg has no mask: .*a.png does not exist"):
        read_annotated(tmp_path)
