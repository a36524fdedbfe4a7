"""Photographs that the public segmenter segments, and the figure of them."""

import numpy as np
import pytest
from PIL import Image

from repri import Segmenter
from repri.data import EXAMPLES
from repri.experiments.demo import COLUMNS, TITLES, draw, figure_of, iou, mean_iou, run, sentence

LEAST = {"rows_2_to_4": 0.85, "lower_half": 0.87, "right": 0.85, "eileen_collins": 0.65, "photographer": 0.85}
"""Query → IoU that RePRI reaches at least."""


@pytest.fixture(scope="module")
def rows():
    return list(run())


def test_the_objects_are_segmented(rows):
    assert [row.query.name for row in rows] == [q.name for example in EXAMPLES.values() for q in example.queries()]
    for row in rows:
        assert row.maps["RePRI"].shape == row.query.mask.shape
        assert row.iou["RePRI"] > LEAST[row.query.name], row.query.name
    assert {row.example.name: row.iou["RePRI"] for row in rows}["coins"] > 0.94


def test_repri_is_better_than_prototypes_on_average_and_never_far_below(rows):
    means = mean_iou(rows)
    assert list(means) == list(COLUMNS)
    assert means["RePRI"] > means["prototype"] + 0.05
    assert means["RePRI"] > means["CE"] - 0.005
    assert all(row.iou["RePRI"] > row.iou["prototype"] - 0.03 for row in rows)


def test_the_last_column_is_the_public_segmenter(rows):
    row = rows[0]
    result = Segmenter().fit([row.support.image], [row.support.mask]).segment(row.query.image)
    assert np.array_equal(result.probability, row.maps["RePRI"])
    assert iou(result.mask == 1, row.query.mask) == row.iou["RePRI"]
    assert not np.array_equal(row.maps["CE"], row.maps["CE + H"])


def test_every_column_of_the_figure_is_labelled(rows):
    figure = figure_of(rows)
    assert [axis.get_label() for axis in figure.axes] == list(TITLES) * len(rows)
    texts = [text.get_text() for text in figure.texts]
    assert set(TITLES) <= set(texts)
    for row in rows:
        assert f"{row.example.story} {sentence(row)}" in texts
        assert f"IoU {100 * row.iou['RePRI']:.0f}" in texts
    width, height = figure.get_size_inches()
    edges = [axis.get_position() for axis in figure.axes]
    assert all(0 <= box.x0 < box.x1 <= 1 and 0 <= box.y0 < box.y1 <= 1 for box in edges)
    assert 0.8 < width / height < 1.4


def test_the_figure_is_written(rows, tmp_path):
    draw(rows[:1], tmp_path / "sub" / "demo.png")
    with Image.open(tmp_path / "sub" / "demo.png") as figure:
        assert figure.width == 1610
        assert len(set(figure.convert("L").get_flattened_data())) > 50
    assert [path.name for path in (tmp_path / "sub").iterdir()] == ["demo.png"]


def test_iou_leaves_out_pixels_without_a_label():
    assert iou(np.array([True, True, False, False]), np.array([1, 0, 1, 0])) == pytest.approx(1 / 3)
    assert iou(np.array([True, True]), np.array([1, 255])) == 1.0
    assert iou(np.zeros(2, bool), np.zeros(2, np.uint8)) == 1.0
