"""Cells are computed once; a lab goes on where another one stopped."""

import pytest

from repri.experiments.items import ITEMS
from repri.experiments.lab import Lab
from repri.experiments.recipe import Cell, Way
from repri.experiments.settings import ReproduceSettings
from repri.experiments.store import CellStore
from repri.runtime.errors import RepriError


def test_an_interrupted_run_goes_on(quick, lab_of, tmp_path, monkeypatch):
    cells = quick.works["table5"].cells[:3]
    first = lab_of(tmp_path)
    first.compute(cells[0])
    second = lab_of(tmp_path)
    assert [second.find(cell) is not None for cell in cells] == [True, False, False]
    computed = second.compute(cells[1])
    assert computed.values == quick.lab.find(cells[1]).values  # the same numbers again
    assert computed.path.name in {path.name for path in tmp_path.iterdir()}
    assert first.find(cells[2]) is None


def test_without_data_kept_results_count_and_others_are_an_error(tmp_path):
    lab = Lab(ReproduceSettings("here"), CellStore(tmp_path))
    cell = Cell("pascal", Way("RePRI", "repri"), 1, 0, 1, 4)
    assert lab.find(cell) is None
    with pytest.raises(RepriError, match="no data to compute it: give --root"):
        lab.compute(cell)


def test_extractors_that_have_not_seen_the_tested_classes():
    lab = Lab(ReproduceSettings("here"), CellStore(None))
    way = Way("RePRI", "repri")
    names = {
        data: lab.settings(Cell(data, way, 1, 0, 1, 4)).extractor.name for data in ("pascal", "coco", "coco-pascal")
    }
    assert names == {"pascal": "default-fold{fold}", "coco": "distilled", "coco-pascal": "distilled"}
    assert lab.settings(Cell("coco-pascal", way, 1, 0, 1, 4)).data.test_data == "pascal"


def test_a_preset_is_for_ways_that_have_none():
    lab = Lab(ReproduceSettings("here", preset="trained"), CellStore(None))
    ways = (Way("RePRI", "repri"), Way("RePRI, the authors' classifier", "repri", preset="original"))
    presets = [lab.settings(Cell("pascal", way, 1, 0, 1, 4)).method.preset for way in ways]
    assert presets == ["trained", "original"]


def test_methods_that_cannot_be_computed_say_why():
    plain = Lab(ReproduceSettings("here"), CellStore(None))
    given = Lab(ReproduceSettings("here", heads="runs/{method}-{variant}-fold{fold}/m.safetensors"), CellStore(None))
    way = Way("PFENet", "pfenet")
    assert "needs a trained head, which --heads names" in plain.why_not(way)
    assert given.why_not(way) is None
    assert plain.why_not(Way("PANet", "panet")) is None, "it can be used without training"
    assert "not registered" in plain.why_not(Way("Nobody", "nobody"))
    rule = ITEMS["rules"].ways[1]
    assert "{variant}" in plain.why_not(rule)
    assert given.why_not(rule) is None
    settings = given.settings(Cell("pascal", rule, 1, 2, 1, 4))
    assert settings.method.weights == "runs/panet-background-fold2/m.safetensors"
    assert given.settings(Cell("pascal", Way("RePRI", "repri"), 1, 2, 1, 4)).method.weights is None
