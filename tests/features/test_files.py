"""Tensors on disk: whole, checked, within a budget."""

import os

import pytest
import torch

from repri.features.files import TensorFiles
from repri.runtime.errors import RepriError


def test_several_tensors_come_back_under_their_names(tmp_path):
    files = TensorFiles(tmp_path, "a")
    wanted = {"x": torch.rand(2, 3).half(), "b": torch.arange(4)}
    files.write("image", wanted)
    found = files.read("image")
    assert found.keys() == wanted.keys()
    assert all(torch.equal(found[name], tensor) for name, tensor in wanted.items())
    assert TensorFiles(tmp_path, "b").read("image") is None


@pytest.mark.parametrize("damage", [lambda content: content[:-3], lambda content: content[:-3] + b"abc", lambda c: b""])
def test_a_damaged_file_is_none(tmp_path, damage):
    files = TensorFiles(tmp_path, "a")
    files.write("image", {"x": torch.rand(50)})
    path = files.path("image")
    path.write_bytes(damage(path.read_bytes()))
    assert files.read("image") is None


def test_the_least_recently_used_files_make_room_in_every_folder(tmp_path):
    old, new = TensorFiles(tmp_path, "old"), TensorFiles(tmp_path, "new", budget=1500)
    for age, (files, name) in enumerate(((new, "c"), (old, "b"), (old, "a"))):
        files.write(name, {"x": torch.zeros(100)})
        os.utime(files.path(name), (1000 - age, 1000 - age))
    new.make_room(400, {old.path("b")})
    assert old.read("a") is None
    assert old.read("b") is not None


def test_a_budget_that_is_no_number(tmp_path, monkeypatch):
    monkeypatch.setenv("REPRI_STORE_GB", "much")
    with pytest.raises(RepriError, match="REPRI_STORE_GB must be a number"):
        TensorFiles(tmp_path, "a")
