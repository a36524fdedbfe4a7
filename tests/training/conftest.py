import pytest
import yaml

from repri.data.datasets.scenes import make_dataset


@pytest.fixture(scope="session")
def scenes(tmp_path_factory):
    """24 training and 8 validation scenes of eight textures."""
    root = tmp_path_factory.mktemp("scenes") / "data"
    make_dataset(root, train=24, val=8)
    return root / "data.yaml"


@pytest.fixture
def settings(scenes, tmp_path, monkeypatch):
    """A run of a few seconds: a narrow head on fixed filters."""
    monkeypatch.setenv("REPRI_CACHE", str(scenes.parent / "cache"))
    return {
        "output": str(tmp_path / "run"),
        "data": str(scenes),
        "network": "filters",
        "freeze": "backbone",
        "head": "conv",
        "width": 16,
        "size": 96,
        "epochs": 2,
        "batch": 4,
        "lr": 0.05,
    }


@pytest.fixture
def config_file(settings, tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(settings))
    return path
