"""Backbones of timm, through a small stand-in with its interface."""

import sys
from types import SimpleNamespace

import pytest
import torch

from repri.models import load_extractor
from repri.runtime.errors import RepriError


class Model(torch.nn.Module):
    """Two feature levels of strides 4 and 8, given with channels last, as Swin models give them."""

    output_fmt = "NHWC"

    def __init__(self, indices):
        super().__init__()
        self.indices = indices
        channels, strides = [8, 16], [4, 8]
        self.feature_info = SimpleNamespace(
            channels=lambda: [channels[i] for i in indices], reduction=lambda: [strides[i] for i in indices]
        )

    def forward(self, x):
        maps = [torch.nn.functional.avg_pool2d(x.repeat(1, 6, 1, 1)[:, :c], s) for c, s in ((8, 4), (16, 8))]
        return [maps[i].permute(0, 2, 3, 1) for i in self.indices]


@pytest.fixture
def library(monkeypatch):
    def create_model(name, pretrained, features_only, out_indices=(0, 1)):
        if name != "small":
            raise RuntimeError(f"Unknown model ({name})\nand more")
        return Model(out_indices)

    normalisation = {"mean": [0.5, 0.5, 0.5], "std": [0.2, 0.2, 0.2]}
    data = SimpleNamespace(resolve_model_data_config=lambda model: normalisation)
    monkeypatch.setitem(sys.modules, "timm", SimpleNamespace(create_model=create_model, data=data))


def test_levels_are_taken_by_name_or_index(library):
    extractor = load_extractor("timm:small")
    assert (extractor.name, extractor.channels, extractor.stride) == ("timm:small", 16, 8)
    assert extractor.rule.mean == (0.5, 0.5, 0.5)
    assert extractor.extract(torch.rand(1, 3, 32, 48)).shape == (1, 16, 4, 6)
    both = load_extractor("timm:small", layers=["layer0", -1])
    assert both.extract(torch.rand(1, 3, 32, 48)).shape == (1, 24, 4, 6)


def test_mistakes_are_named(library, monkeypatch):
    with pytest.raises(RepriError, match=r"timm:large cannot be loaded: Unknown model \(large\)$"):
        load_extractor("timm:large")
    with pytest.raises(RepriError, match=r"timm:small has no layer 'layer7'\. Known: layer0, layer1"):
        load_extractor("timm:small", layers=["layer7"])
    with pytest.raises(RepriError, match="The extractor 'timm:small' takes no option 'weights'"):
        load_extractor("timm:small", "w.pth")
    monkeypatch.setenv("REPRI_OFFLINE", "1")
    with pytest.raises(RepriError, match="REPRI_OFFLINE is set, so the weights of timm:small are not fetched"):
        load_extractor("timm:small")
