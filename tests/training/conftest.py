import shutil

import pytest
import torch

from repri.models.networks.build import build_backbone
from repri.models.weights.checkpoints import save_checkpoint
from repri.training import prepare, train

from .make import DISCRIMINANT, SMALL, Finished, draw_scenes, settings_from


@pytest.fixture(scope="session")
def scenes(tmp_path_factory):
    return draw_scenes(tmp_path_factory.mktemp("scenes"))


@pytest.fixture
def values(scenes, tmp_path, monkeypatch):
    """Dotted names and values of a run of about a second."""
    monkeypatch.setenv("REPRI_CACHE", str(scenes.parent / "cache"))
    return SMALL | {"data.name": str(scenes), "output": str(tmp_path / "run")}


@pytest.fixture
def make(values):
    """Settings of such a run, with changes."""
    return lambda changes=None: settings_from(values | (changes or {}))


@pytest.fixture(scope="session")
def finish(scenes, tmp_path_factory):
    """A function that trains a run, whose folder other tests must not change."""

    def run(name, changes):
        folder = tmp_path_factory.mktemp(name) / "run"
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("REPRI_CACHE", str(scenes.parent / "cache"))
            plan = prepare(settings_from(SMALL | {"data.name": str(scenes), "output": str(folder)} | changes))
            return Finished(plan, train(plan))

    return run


@pytest.fixture(scope="session")
def trained(finish):
    """A head on the filters."""
    return finish("trained", {})


@pytest.fixture(scope="session")
def fitted(finish):
    """A discriminant on the filters."""
    return finish("fitted", DISCRIMINANT)


@pytest.fixture
def copied(trained, tmp_path):
    """A copy of the run with the head, in the folder of ``make()``."""
    shutil.copytree(trained.folder, tmp_path / "run")
    return tmp_path / "run"


@pytest.fixture(scope="session")
def mobilenet(tmp_path_factory):
    """A file with an untrained MobileNet."""
    torch.manual_seed(0)
    state = {f"backbone.{key}": value for key, value in build_backbone("mobilenet_v2").state_dict().items()}
    path = tmp_path_factory.mktemp("mobilenet") / "mobilenet.safetensors"
    save_checkpoint(path, state, {"backbone": "mobilenet_v2"})
    return str(path)


@pytest.fixture(scope="session")
def pupil(mobilenet):
    """Changes to the settings: a compact network learns the features of the filters, without labels."""
    return {
        "network.name": "compact-mobilenet_v2",
        "network.weights": mobilenet,
        "network.freeze": "layer2",
        "head.width": 256,
        "data.size": 65,
        "data.fold": None,
        "teacher.name": "filters",
        "teacher.size": 64,
        "loss.label_weight": 0.0,
        "optimiser.name": "adamw",
        "optimiser.lr": 3e-3,
        "optimiser.epochs": 2,
    }
