"""Cells are computed once; a lab goes on where another one stopped."""

import pytest

from repri.experiments.items import ITEMS
from repri.experiments.lab import Lab, Place, needs_head
from repri.experiments.recipe import BUDGETS, Cell, Way
from repri.experiments.store import CellStore
from repri.methods import Method, register_method
from repri.methods.registry import METHODS
from repri.models.settings import ExtractorSettings
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
    lab = Lab(Place(BUDGETS["here"]), CellStore(tmp_path))
    cell = Cell("pascal", Way("RePRI", "repri"), 1, 0, 1, 4)
    assert lab.find(cell) is None
    with pytest.raises(RepriError, match="no data to compute it: give --root"):
        lab.compute(cell)


def test_extractors_that_have_not_seen_the_tested_classes():
    lab = Lab(Place(BUDGETS["here"]), CellStore(None))
    way = Way("RePRI", "repri")
    names = {
        data: lab.settings(Cell(data, way, 1, 0, 1, 4)).extractor.name for data in ("pascal", "coco", "coco-pascal")
    }
    assert names == {"pascal": "default-fold{fold}", "coco": "distilled", "coco-pascal": "distilled"}
    assert lab.settings(Cell("coco-pascal", way, 1, 0, 1, 4)).data.test_data == "pascal"


def test_methods_that_cannot_be_computed_say_why(monkeypatch):
    class Learned(Method):
        name = "learned-here"

        def __init__(self, weights: str):
            self.weights = weights

        def predict(self, episode):
            raise AssertionError

    monkeypatch.setattr(METHODS, "_objects", dict(METHODS._objects))
    register_method("learned-here")(Learned)
    plain = Lab(Place(BUDGETS["here"]), CellStore(None))
    given = Lab(Place(BUDGETS["here"], heads="runs/{method}-fold{fold}/m.safetensors"), CellStore(None))
    way = Way("Learned", "learned-here")
    assert needs_head("learned-here")
    assert "needs a trained head, which --heads names" in plain.why_not(way)
    assert given.why_not(way) is None
    settings = given.settings(Cell("pascal", way, 1, 2, 1, 4))
    assert settings.method.settings["weights"] == "runs/learned-here-fold2/m.safetensors"
    assert "not registered" in plain.why_not(Way("Nobody", "nobody"))
    rule = ITEMS["rules"].ways[1]
    assert "{variant}" in plain.why_not(rule)
    named = Lab(
        Place(BUDGETS["here"], extractor=ExtractorSettings("runs/{variant}-fold{fold}.safetensors")), CellStore(None)
    )
    assert named.why_not(rule) is None
    assert named.settings(Cell("pascal", rule, 1, 0, 1, 4)).extractor.name == "runs/background-fold{fold}.safetensors"
