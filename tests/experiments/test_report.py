"""Tables of items from results."""

import math
from pathlib import Path

import pytest

from repri.experiments.items import ITEMS
from repri.experiments.recipe import Cell, Way
from repri.experiments.report import Findings, mean_of_folds, table_of
from repri.experiments.store import Kept


def kept(miou, low, high, fold=0):
    values = {"miou": miou, "interval": [low, high], "tasks_hash": "h"}
    return Kept(Path("a.json"), str(fold), {"per_fold": {str(fold): values}})


def test_interval_of_a_mean():
    mean, low, high = mean_of_folds(
        [{"miou": 40.0, "interval": [37.0, 41.0]}, {"miou": 60.0, "interval": [56.0, 62.0]}]
    )
    assert mean == 50.0
    assert low == pytest.approx(50 - math.hypot(3, 4) / 2)
    assert high == pytest.approx(50 + math.hypot(1, 2) / 2)


def test_ours_beside_the_paper():
    item = ITEMS["table5"]
    way = item.ways[2]
    results = {Cell("pascal", way, 1, fold, 1, 10): kept(50.0 + fold, 48.0, 53.0 + fold, fold) for fold in range(4)}
    table = table_of(Findings(item, results, {}))
    label, numbers = table.rows[0]
    assert label == "CE + H + KL, 1 shot"
    assert [number.paper for number in numbers] == [60.2, 67.0, 61.7, 47.5, 59.1]
    assert numbers[0].difference == pytest.approx((-10.2, -12.2, -7.2))
    assert numbers[4].ours == 51.5
    assert numbers[4].difference[0] == pytest.approx(-7.6)


def test_a_mean_of_some_folds_has_no_difference():
    item = ITEMS["table5"]
    results = {Cell("pascal", item.ways[0], 1, 0, 1, 10): kept(50.0, 48.0, 53.0)}
    numbers = table_of(Findings(item, results, {})).rows[0][1]
    assert numbers[0].difference is not None
    assert numbers[4].paper == 38.5
    assert numbers[4].difference is None


def test_base_classes_choose_without_the_fold_itself():
    item = ITEMS["choose-bias"]
    first, second = item.ways[:2]
    results = {}
    for fold, (a, b) in enumerate([(90, 10), (10, 20), (10, 20), (10, 20)]):
        for shots in item.shots:
            results[Cell("pascal", first, shots, fold, 1, 10)] = kept(a, a, a, fold)
            results[Cell("pascal", second, shots, fold, 1, 10)] = kept(b, b, b, fold)
    table = table_of(Findings(item, results, {}))
    assert f"The base classes of fold 0 choose {second.name}." in table.notes
    assert f"The base classes of fold 1 choose {first.name}." in table.notes
    assert table.rows[0][1][2].ours == pytest.approx(10)  # base of fold 0: the other three


def test_what_a_way_adds_is_measured_on_the_same_tasks(quick):
    notes = quick.outputs["table5"].table.notes
    assert sum(note.startswith("On the same tasks, CE + H") for note in notes) == 4
    assert Way("a", "repri") == Way("a", "repri")
