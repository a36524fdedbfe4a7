"""One quick run of every item, which the tests of the experiments share."""

from typing import NamedTuple

import pytest

from repri.data.datasets.scenes import make_dataset
from repri.experiments.items import find_items
from repri.experiments.lab import Lab
from repri.experiments.reproduce import produce, work_of
from repri.experiments.settings import ReproduceSettings
from repri.experiments.store import CellStore


class Quick(NamedTuple):
    """A quick run."""

    lab: Lab
    works: dict
    """Name of an item → its work before anything was computed."""
    outputs: dict
    """Name of an item → its output."""
    folder: object


@pytest.fixture(scope="session")
def scenes(tmp_path_factory):
    """A cache with smaller scenes than those that a user gets."""
    cache = tmp_path_factory.mktemp("cache")
    make_dataset(cache / "scenes-1", train=8, val=80, size=193)
    return cache


@pytest.fixture(scope="session")
def quick(scenes, tmp_path_factory):
    """Every item of the paper within the budget ``quick``."""
    folder = tmp_path_factory.mktemp("reproduced")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REPRI_CACHE", str(scenes))
        lab = Lab(ReproduceSettings("quick"), CellStore(folder / "cells"))
        works, outputs = {}, {}
        for item in find_items(["all"]):
            works[item.name] = work_of(lab, item)
            if works[item.name].possible:
                outputs[item.name] = produce(lab, works[item.name], folder)
    return Quick(lab, works, outputs, folder)


@pytest.fixture
def lab_of(scenes, monkeypatch):
    """Makes another lab in the same cache: ``lab_of(folder, stored=[…], heads=…)``."""
    monkeypatch.setenv("REPRI_CACHE", str(scenes))

    def make(folder, stored=(), **place):
        return Lab(ReproduceSettings("quick", **place), CellStore(folder, stored))

    return make
