"""Layers by name."""

import pytest
import torch

from repri.models import load_extractor
from repri.models.networks.layered import pick_layers
from repri.runtime.errors import RepriError

KNOWN = ["layer1", "layer2", "layer3"]


@pytest.mark.parametrize(
    ("layers", "picked"),
    [
        (None, ("layer3",)),
        ([-1, 0], ("layer1", "layer3")),
        (["layer3", "layer2", "layer3"], ("layer2", "layer3")),
        ((1,), ("layer2",)),
    ],
)
def test_layers_come_in_the_order_of_the_network(layers, picked):
    assert pick_layers(layers, KNOWN, "x") == picked


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        ("layer3", r"layers must be a list of names or numbers, such as \('layer3',\), got 'layer3'"),
        ((), "layers must be a list of names or numbers"),
        (["layer9"], "x has no layer 'layer9'. Known: layer1, layer2, layer3"),
        ([3], "x has no layer 3"),
    ],
)
def test_mistakes_are_named(layers, message):
    with pytest.raises(RepriError, match=message):
        pick_layers(layers, KNOWN, "x")


@pytest.mark.filterwarnings("ignore:.*is untrained")
@pytest.mark.parametrize("name", ["mobilenet_v2", "vgg16"])
def test_layers_beyond_the_last_wanted_are_not_computed(name):
    image = torch.rand(1, 3, 33, 33)
    torch.manual_seed(0)
    part = load_extractor(name, layers=("layer2",))
    torch.manual_seed(0)
    whole = load_extractor(name, layers=("layer2", "layer4"))
    assert set(part.run(image)) == {"layer1", "layer2"}
    torch.testing.assert_close(part.run(image)["layer2"], whole.run(image)["layer2"])
