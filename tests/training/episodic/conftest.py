import pytest

from repri.data.datasets.scenes import make_dataset
from repri.training import prepare, train
from tests.training.make import settings_from

from .make import EPISODIC, LONGER


@pytest.fixture(scope="session")
def scenes(tmp_path_factory):
    """24 training and 24 validation scenes of eight textures; the file that describes them."""
    folder = tmp_path_factory.mktemp("scenes")
    make_dataset(folder / "data", train=24, val=24)
    return folder / "data" / "data.yaml"


@pytest.fixture
def values(scenes, tmp_path, monkeypatch):
    """Dotted names and values of a short run of panet."""
    monkeypatch.setenv("REPRI_CACHE", str(scenes.parent / "cache"))
    return EPISODIC | {"data.name": str(scenes), "output": str(tmp_path / "run")}


@pytest.fixture
def make(values):
    """The plan of such a run, with changes."""
    return lambda changes=None: prepare(settings_from(values | (changes or {})))


@pytest.fixture(scope="session")
def learned(scenes, tmp_path_factory):
    """A run that has learned; other tests must not change its folder."""
    changes = LONGER | {"data.name": str(scenes)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REPRI_CACHE", str(scenes.parent / "cache"))
        plan = prepare(settings_from(EPISODIC | changes | {"output": str(tmp_path_factory.mktemp("learned") / "run")}))
        train(plan)
        return plan
