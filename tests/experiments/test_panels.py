"""Images of single tasks."""

import numpy as np

from repri.experiments.items import ITEMS
from repri.experiments.panels import SHOWN, figure_of_panels, panels_of


def test_maps_of_every_way_and_the_start(quick, lab_of):
    panels = panels_of(lab_of(quick.folder / "cells"), ITEMS["figure1"])
    assert len(panels) == SHOWN
    for panel in panels:
        assert list(panel.maps) == ["initial", "CE", "CE + H", "CE + H + KL"]
        for probability in panel.maps.values():
            assert probability.shape == panel.image.shape[:2]
            assert 0 <= probability.min() <= probability.max() <= 1
        assert all(0 <= score <= 1 for score in panel.scores.values())
        assert not np.array_equal(panel.query, panel.image)  # the object is outlined
    assert len(figure_of_panels(panels[:2], masks=True, title="a", facts={"data": "scenes"}).axes) == 2 * 6
