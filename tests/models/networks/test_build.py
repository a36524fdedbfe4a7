"""Our networks by name."""

import pytest
import torch

from repri.models.networks.build import BACKBONES, WHOLE, add_head, backbone_of, build_backbone, whole_name
from repri.runtime.errors import RepriError


@pytest.mark.parametrize("name", BACKBONES)
def test_every_backbone_has_a_whole_network(name):
    assert whole_name(name) in WHOLE
    assert backbone_of(whole_name(name)) == backbone_of(name) == name
    with torch.device("meta"):
        backbone = build_backbone(name, dilated=False)
    assert list(backbone.channels) == list(backbone.strides) == ["layer1", "layer2", "layer3", "layer4"]


@pytest.mark.parametrize(("name", "usual"), [("mobilenet_v2", 384), ("vgg16", 512)])
def test_the_width_of_the_head_is_that_of_the_tensors(name, usual):
    with torch.device("meta"):
        network = add_head(build_backbone(name), 5, {})
        narrow = add_head(build_backbone(name), 5, {**dict.fromkeys(network.state_dict())} | _narrow(network))
    assert network.channels["bottleneck"] == usual
    assert narrow.channels["bottleneck"] == 8
    assert network.classifier.out_channels == 5


def _narrow(network):
    """The weights of the bottleneck, of which only the length matters, with 8 channels."""
    key = next(key for key in ("bottleneck.weight", "bottleneck.0.weight") if key in network.state_dict())
    return {key: torch.empty(8, 1)}


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("resnet50", {"stm": "deep"}, "resnet50 has no option 'stm'. Known: bn_eps, dilated, stem, stride_in"),
        ("mobilenet_v2", {"stem": "deep"}, "mobilenet_v2 has no option 'stem'. Known: bn_eps, dilated"),
        ("alexnet", {}, "There is no backbone named 'alexnet'. Known: resnet50"),
    ],
)
def test_mistakes_are_named(name, options, message):
    with pytest.raises(RepriError, match=message):
        build_backbone(name, **options)
