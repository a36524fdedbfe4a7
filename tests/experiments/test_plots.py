import pytest

from repri.experiments.plots import new_figure, titled

pytest.importorskip("matplotlib")


def test_a_long_title_fits_the_width_of_a_figure():
    facts = {"data": "PASCAL-5i", "protocol": "clean", "extractor": "hub:a/model", "tasks": "5×1000", "folds": "0, 1"}
    figure = titled(new_figure(3, 2), "Masks before the first step", facts)
    lines = figure.get_suptitle().splitlines()
    assert lines[0] == "Masks before the first step"
    assert "; ".join(lines[1:]) == "; ".join(f"{name}: {value}" for name, value in facts.items())
    assert figure._suptitle.get_window_extent().width < figure.bbox.width
