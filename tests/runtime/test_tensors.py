"""Tensors in files."""

import os

import pytest
import torch
import torch.nn as nn

from repri.runtime.errors import RepriError
from repri.runtime.tensors import load_exactly, read_tensors, write_tensors


def test_tensors_and_metadata_come_back(tmp_path):
    tensors = {"a": torch.rand(3, 4).T, "b": torch.arange(3)}
    write_tensors(tmp_path / "x.safetensors", tensors, {"told": "this"})
    read, metadata = read_tensors(tmp_path / "x.safetensors")
    assert metadata == {"told": "this"}
    assert all(torch.equal(read[key], tensors[key]) for key in tensors)
    assert os.listdir(tmp_path) == ["x.safetensors"]
    (tmp_path / "x.safetensors").rename(tmp_path / "renamed.pth")  # recognised by content, not by name
    assert read_tensors(tmp_path / "renamed.pth")[1] == metadata


class Evil:
    def __reduce__(self):
        return print, ("executed",)


def test_files_that_cannot_be_read(tmp_path, capsys):
    def refused(path, message):
        with pytest.raises(RepriError, match=message) as caught:
            read_tensors(path)
        assert "\n" not in str(caught.value)

    refused(tmp_path / "nowhere.pth", "There is no weights file at")
    for name in ("text.pth", "text.safetensors"):
        (tmp_path / name).write_text("hello")
        refused(tmp_path / name, "cannot be read as weights: it is damaged, no weights file")
    torch.save({"state_dict": {"a": torch.zeros(1)}, "x": Evil()}, tmp_path / "evil.pth")
    refused(tmp_path / "evil.pth", "a pickle with more than tensors")
    assert "executed" not in capsys.readouterr().out
    torch.save([1, 2], tmp_path / "list.pth")
    refused(tmp_path / "list.pth", "holds a list, not a state dict")


def test_wrong_keys_are_listed():
    model = nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4), *(nn.Linear(2, 2) for _ in range(4)))
    state = {key: value for key, value in model.state_dict().items() if not key.startswith(("2", "3", "4", "5"))}
    state |= {"9.weight": torch.zeros(1), "1.bias": torch.zeros(3)}
    with pytest.raises(RepriError, match="x does not fit Sequential") as caught:
        load_exactly(model, state, "x")
    message = str(caught.value)
    assert "8 missing (2.bias, 2.weight, 3.bias, 3.weight, 4.bias, 4.weight and 2 more)" in message
    assert "1 unknown (9.weight)" in message
    assert "1 of another shape (1.bias: [3] instead of [4])" in message


def test_old_files_do_not_count_batches():
    model = nn.Sequential(nn.BatchNorm2d(4))
    state = {key: value + 1 for key, value in model.state_dict().items() if "num_batches" not in key}
    load_exactly(model, state, "x")
    assert torch.equal(model[0].running_mean, torch.ones(4))
