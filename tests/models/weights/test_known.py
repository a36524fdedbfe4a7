"""Weights by name."""

import pytest

from repri.models.weights.known import KNOWN, cached_path, find_weights, imported_path, weights_folder
from repri.runtime.errors import RepriError


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("REPRI_CACHE", str(tmp_path / "cache"))
    weights_folder().mkdir(parents=True)
    return weights_folder()


def test_entries_say_where_files_are():
    assert list(KNOWN) == [entry.name for entry in KNOWN.values()]
    assert cached_path("resnet50").name == "resnet50-0676ba61.pth"
    assert cached_path("resnet50-deep").name == "resnet50-deep.pth"
    assert all(entry.file.endswith(".pth") for entry in KNOWN.values())


def test_a_file_is_found_by_path_or_by_name(cache, tmp_path):
    (tmp_path / "mine.pth").touch()
    assert find_weights(tmp_path / "mine.pth") == tmp_path / "mine.pth"
    (cache / "other.safetensors").touch()
    assert find_weights("other") == imported_path("other") == cache / "other.safetensors"
    cached_path("vgg16").touch()
    assert find_weights("vgg16") == cached_path("vgg16")


def test_weights_that_are_not_here():
    assert imported_path("vgg16") is None
    with pytest.raises(RepriError, match="The weights 'vgg16' are not here yet: run repri weights get vgg16"):
        find_weights("vgg16")
    with pytest.raises(RepriError, match="no weights file at nonsense, and there are no known weights of that name"):
        find_weights("nonsense")
