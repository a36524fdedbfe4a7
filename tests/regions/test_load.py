"""Region models by name."""

import pytest

from repri.regions.load import load_regions, regions_name
from repri.runtime.errors import RepriError

from .make import write_pair


def test_the_first_known_model_in_the_cache_is_the_default(tmp_path, monkeypatch):
    monkeypatch.setenv("REPRI_CACHE", str(tmp_path))
    with pytest.raises(RepriError, match="no region model in the cache yet"):
        load_regions()
    write_pair(tmp_path / "weights" / "mobile-sam", "sam")
    assert regions_name() == "mobile-sam"
    write_pair(tmp_path / "weights" / "sam2-tiny")
    assert regions_name() == "sam2-tiny"
    assert load_regions() is load_regions("sam2-tiny")
    assert load_regions("mobile-sam").frame.fit == "pad"


def test_a_folder_is_a_name(tmp_path):
    assert load_regions(write_pair(tmp_path / "mine")).frame.fit == "squash"
    with pytest.raises(RepriError, match="give a folder with encoder"):
        regions_name(tmp_path / "nothing")


def test_a_known_model_that_is_not_here(tmp_path, monkeypatch):
    monkeypatch.setenv("REPRI_CACHE", str(tmp_path))
    with pytest.raises(RepriError, match="run repri weights get sam2-tiny"):
        regions_name("sam2-tiny")
