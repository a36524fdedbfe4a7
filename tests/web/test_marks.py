"""Marks and the labels that they mean."""

import numpy as np
import pytest
from pydantic import ValidationError

from repri.runtime.errors import RepriError
from repri.web.marks import Annotation, Mark, implied, label_map, region_mark


@pytest.mark.parametrize(("width", "pixels"), [(1, 1), (3, 5), (9, 61)])
def test_a_click_with_the_brush_is_a_disc(width, pixels):
    labels = label_map(Annotation(marks=[Mark(kind="brush", label=1, points=[(10.5, 10.5)], width=width)]), 21, 21)
    rows, columns = np.nonzero(labels == 1)
    assert len(rows) == pixels
    assert (rows.mean(), columns.mean()) == (10, 10)


def test_later_marks_lie_over_earlier_ones_and_an_eraser_removes_them():
    box = Mark(kind="box", label=1, points=[(8, 8), (0, 0)])
    polygon = Mark(kind="polygon", label=2, points=[(0, 0), (4, 0), (4, 4), (0, 4)])
    eraser = Mark(kind="brush", label=255, points=[(0, 0), (0, 7)], width=1)
    labels = label_map(Annotation(marks=[box, polygon, eraser]), 10, 10)
    assert labels[7, 7] == 1
    assert labels[3, 3] == 2
    assert set(labels[:8, 0].tolist()) == {255}
    assert labels[9, 9] == 255
    complete = label_map(Annotation(marks=[box, polygon, eraser], complete=True), 10, 10)
    assert complete[0, 0] == complete[9, 9] == 0


def test_any_region_survives():
    region = np.random.default_rng(0).random((30, 20)) > 0.6
    assert ((label_map(Annotation(marks=[region_mark(region, 3)]), 30, 20) == 3) == region).all()
    with pytest.raises(RepriError, match="do not add up"):
        label_map(Annotation(marks=[region_mark(region, 3)]), 20, 20)


def test_an_image_without_background_marks_gets_an_edge_of_it():
    labels = np.full((100, 60), 255, np.uint8)
    labels[0:50, 20:30] = 1
    more = implied(labels)
    assert (more[0, 20:30] == 1).all()
    assert set(more[0, :20].tolist()) == set(more[:, -2:].flatten().tolist()) == {0}
    assert (more[2:-2, 2:-2] == labels[2:-2, 2:-2]).all()
    labels[80, 30] = 0
    assert implied(labels) is labels


@pytest.mark.parametrize(
    "content",
    [
        {"kind": "brush", "label": 1, "points": []},
        {"kind": "polygon", "label": 1, "points": [(0, 0), (1, 1)]},
        {"kind": "box", "label": 1, "points": [(0, 0), (1, 1), (2, 2)]},
        {"kind": "box", "label": 256, "points": [(0, 0), (1, 1)]},
        {"kind": "brush", "label": 1, "points": [(float("nan"), 0)]},
        {"kind": "brush", "label": 1, "points": [(0, 0)], "width": 1e9},
        {"kind": "region", "label": 1},
        {"kind": "region", "label": 1, "counts": "PPPPPPPPPPPP0"},
        {"kind": "region", "label": 1, "counts": "<script>"},
        {"kind": "star", "label": 1},
    ],
)
def test_marks_that_mean_nothing_are_refused(content):
    with pytest.raises(ValidationError):
        Mark(**content)


def test_marks_that_take_too_long_to_draw_are_refused():
    mark = Mark(kind="brush", label=1, points=[(0, 0)] * 19_000, width=1000)
    with pytest.raises(ValidationError, match="too many points"):
        Annotation(marks=[mark])
