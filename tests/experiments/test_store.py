"""Cells are kept and found again, whichever folder they are in."""

import json
import shutil

import pytest

from repri.experiments.items import ITEMS
from repri.experiments.store import CellStore


@pytest.fixture
def cell(quick):
    return quick.works["table5"].cells[0]


def test_a_kept_cell_is_found_until_tasks_or_files_differ(quick, cell):
    identity, found = quick.lab.identity(cell), quick.lab.find(cell)
    store = CellStore(quick.folder / "cells")
    same = store.find(identity, None, None)
    assert same.values == found.values
    assert store.find(identity, found.values["tasks_hash"], found.result["data_files"]).path == same.path
    assert store.find(identity, "0" * 16, None) is None
    assert store.find(identity, None, "0" * 16) is None
    assert store.find(identity | {"protocol": "paper"}, None, None) is None


def test_stored_results_count_and_our_own_come_first(quick, cell, tmp_path):
    identity, path = quick.lab.identity(cell), quick.lab.find(cell).path
    (tmp_path / "results/study").mkdir(parents=True)
    stored = shutil.copy(path, tmp_path / "results/study/any-name.json")
    empty = CellStore(tmp_path / "none", [tmp_path / "results"])
    assert empty.find(identity, None, None).path == stored
    both = CellStore(path.parent, [tmp_path / "results"])
    assert both.find(identity, None, None).path.parent == path.parent


def test_files_of_other_kinds_and_damaged_ones_are_passed_over(quick, cell, tmp_path):
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "other.json").write_text(json.dumps({"format": "something"}))
    with pytest.warns(UserWarning, match="It is not used"):
        assert CellStore(tmp_path).find(quick.lab.identity(cell), None, None) is None
    assert ITEMS["table5"].name == "table5"
