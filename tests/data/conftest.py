"""What the tests of several folders share."""

import pytest

from repri.data.datasets.open import open_dataset


@pytest.fixture(autouse=True)
def own_cache(request, tmp_path_factory, monkeypatch):
    """A cache of the test's own; only counts of real data are worth keeping."""
    if "test_data" in request.fixturenames:
        return None
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("REPRI_CACHE", str(folder))
    return folder


@pytest.fixture(scope="session")
def pascal(test_data):
    """The real PASCAL-5i, by split."""
    root = test_data / "data" / "voc5i"
    return {split: open_dataset("pascal", root, split) for split in ("train", "val")}
