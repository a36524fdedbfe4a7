"""Recipes expand to ways and folds by budget."""

from repri.experiments.items import ITEMS
from repri.experiments.recipe import BUDGETS, Way


def test_a_sweep_makes_one_way_for_each_value():
    curve = ITEMS["figure2"]
    assert len(list(curve.ways_of("full"))) == 50
    values = [dict(way.settings)["t_pi"] for way in curve.ways_of("here")]
    assert values == list(curve.sweep.here)
    assert 10 in values
    assert len(list(ITEMS["table5"].ways_of("full"))) == 3


def test_folds_by_budget_and_choice():
    curve = ITEMS["figure2"]
    assert curve.folds_of("full") == (0, 1, 2, 3)
    assert curve.folds_of("here") == (0,)
    assert curve.folds_of("here", (1, 3)) == (1, 3)
    assert ITEMS["table1"].folds_of("quick") == (0, 1)


def test_settings_of_a_way_are_replaced():
    way = Way("a", "repri", (("lr", 1.0),)).set(lr=2.0, steps=3)
    assert dict(way.settings) == {"lr": 2.0, "steps": 3}
    assert (BUDGETS["full"].runs, BUDGETS["full"].tasks) == (5, 1000)
