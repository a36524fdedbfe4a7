"""Shapes as masks of ids and as soft supports."""

import numpy as np
import pytest

from repri.data.io.annotations import AnnotatedImage, Shape, box_prior, shapes_of
from repri.runtime.errors import RepriError


def test_boxes_are_soft_inside_and_sure_outside():
    item = AnnotatedImage(None, 40, 60, (Shape("cat", "box", ((50, 30), (10, 10))),))
    soft = item.support("cat")
    outside = np.ones((40, 60), bool)
    outside[10:30, 10:50] = False
    assert (soft[outside] == 0).all()
    assert soft[20, 30] == pytest.approx(0.875, abs=0.01)
    assert 0 < soft[10, 10] < 0.2
    assert soft[10:30, 10:50].mean() == pytest.approx(0.6, abs=0.01)
    assert (soft == soft[::-1, ::-1]).all()
    assert item.ids({"cat": 1}).sum() == 800
    assert box_prior(np.zeros(1), np.zeros(1)) == 0.875


def test_scribbles_leave_the_rest_unlabelled():
    strokes = (
        Shape("cat", "scribble", ((10, 10), (40, 10)), width=3),
        Shape("background", "scribble", ((5, 35), (50, 35))),
    )
    item = AnnotatedImage(None, 40, 60, strokes)
    soft = item.support("cat")
    assert set(np.unique(soft)) == {0, 1, 255}
    assert soft[10, 20] == 1
    assert soft[35, 20] == 0
    assert (soft == 255).mean() > 0.7
    assert item.ids({"cat": 3})[10, 20] == 3
    assert item.ids({"cat": 3})[20, 20] == 255


def test_soft_supports_are_what_inference_takes():
    import torch

    from repri import infer

    features = torch.randn(1, 1, 16, 10, 15)
    for shape in (Shape("cat", "box", ((10, 10), (50, 30))), Shape("cat", "scribble", ((10, 10), (40, 10)))):
        soft = torch.from_numpy(AnnotatedImage(None, 40, 60, (shape,)).support("cat"))
        out = infer(features, soft[None, None], features[:, 0])
        assert torch.isfinite(out.probability).all()


def test_labels_and_ids_that_are_no_classes():
    item = AnnotatedImage(None, 4, 4, (Shape("cow", "box", ((0, 0), (2, 2))),))
    with pytest.raises(RepriError, match="the label 'cow' is not one of the classes cat, dog"):
        item.ids({"cat": 1, "dog": 2})
    with pytest.raises(RepriError, match="the mask holds the id 3, the classes have 1, 2"):
        shapes_of(np.array([[0, 3]]), {1: "cat", 2: "dog"})
