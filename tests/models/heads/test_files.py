"""Files of heads."""

import json

import pytest
import torch

from repri.models.heads.blocks import Blocks
from repri.models.heads.convolution import Head
from repri.models.heads.discriminant import Discriminant
from repri.models.heads.files import METADATA, is_head, load_head, save_head
from repri.models.weights.embedded import EMBEDDED
from repri.runtime.errors import RepriError
from repri.runtime.tensors import write_tensors
from tests.models.layouts import same_tensors, stirred

BASE = {"name": "filters", "seen": ["cat"]}


@pytest.mark.parametrize("head", [Head(8, "psp", 4, upsample=2), Blocks(8, 2, 2, 16), Discriminant([4, 4], 6)])
def test_every_head_comes_back(tmp_path, head):
    path = tmp_path / "head.safetensors"
    save_head(path, stirred(head), BASE, {"classifier.weight": torch.zeros(1)})
    assert is_head(path)
    loaded, base = load_head(path)
    assert base == BASE
    assert type(loaded) is type(head)
    assert same_tensors(loaded, head)


def test_other_files_hold_no_head(tmp_path):
    assert not is_head(EMBEDDED)
    with pytest.raises(RepriError, match=r"There is no weights file at .*nothing\.safetensors"):
        is_head(tmp_path / "nothing.safetensors")


@pytest.mark.parametrize(
    "content",
    [
        {"head": {"kind": "conv"}, "base": BASE},
        {"head": {"channels": 8, "kind": "conv", "width": 4}, "base": {}},
        {},
        3,
    ],
)
def test_damaged_files(tmp_path, content):
    path = tmp_path / "head.safetensors"
    write_tensors(path, {"head.x": torch.zeros(1)}, {METADATA: json.dumps(content)})
    with pytest.raises(RepriError, match=r"head\.safetensors is damaged, or holds no head that this project wrote"):
        load_head(path)
