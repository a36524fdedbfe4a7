"""What the tests of the evaluation share: a small data set, an extractor, a cache."""

from dataclasses import replace

import pytest

from repri.evaluation import EvaluationSettings, evaluate_folds, plan_evaluation
from repri.models import load_extractor
from tests.textures import make_textures


@pytest.fixture(scope="session")
def textures(tmp_path_factory):
    """The YAML file of a small data set."""
    return make_textures(tmp_path_factory.mktemp("textures") / "data")


@pytest.fixture(scope="session")
def filters():
    return load_extractor("filters")


@pytest.fixture(scope="session")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def _cached(cache, monkeypatch):
    monkeypatch.setenv("REPRI_CACHE", str(cache))


@pytest.fixture
def settings(textures):
    """Makes settings of a short evaluation: ``settings(shots=(2,), folds=(0,), method="ce", protocol="paper")``."""

    def make(**changes):
        base = EvaluationSettings()
        data = replace(base.data, name=str(textures), min_pixels=200, folds=changes.pop("folds", None))
        drawn = {key: changes.pop(key) for key in ("shots", "seed", "task_list", "tasks") if key in changes}
        tasks = replace(base.tasks, **({"tasks": 10, "runs": 2} | drawn))
        method = replace(base.method, name=changes.pop("method", "repri"))
        extractor = replace(base.extractor, size=64)
        return replace(base, data=data, tasks=tasks, method=method, extractor=extractor, **changes)

    return make


@pytest.fixture
def run(settings, filters):
    """Runs a short evaluation with filters: number of shots → result."""
    return lambda **changes: evaluate_folds(plan_evaluation(settings(**changes)), lambda fold: filters)
