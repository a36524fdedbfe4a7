"""Figures tell lines apart without colours."""

import pytest

from repri.experiments.figures import STYLES, curve_figure, delta_figure, table_figure
from repri.experiments.report import Findings


@pytest.fixture
def findings(quick):
    def make(name):
        work = quick.works[name]
        results = {cell: quick.lab.find(cell) for cell in work.cells}
        return Findings(work.item, results, {"protocol": "clean"})

    return make


def test_styles_differ_in_more_than_colour():
    assert len({style["marker"] for style in STYLES}) == len({style["linestyle"] for style in STYLES}) == len(STYLES)


def test_a_curve_has_a_line_for_each_number_of_shots(quick, findings):
    (axes,) = curve_figure(findings("figure2")).axes
    lines = axes.get_lines()
    assert [line.get_label() for line in lines] == ["1 shot", "5 shots"]
    assert lines[0].get_marker() != lines[1].get_marker()
    assert list(lines[0].get_xdata()) == [2, 10, 50]


def test_a_box_plot_of_delta(quick, findings):
    (axes,) = delta_figure(findings("figure3a")).axes
    assert [label.get_text() for label in axes.get_xticklabels()] == ["at the start", "after 10 steps"]


def test_means_of_a_table(quick, findings):
    figure = table_figure(findings("table3"))
    assert len(figure.axes) == 3
    rows = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert rows[0] == "Prototype"
    assert rows[-2:] == ["RePRI", "Oracle-RePRI"]
    assert {"PANet", "PPNet", "PMM", "INSID3"} <= set(rows), "these need no training"
    assert not {"RPMM", "PFENet"} & set(rows), "these need trained networks"
