"""The fast network has the outputs of the network."""

import pytest
import torch

from repri.models.networks.build import build_backbone
from repri.models.networks.fast import accelerate
from repri.models.networks.mobile import CompactNet
from repri.models.networks.pspnet import PSPNet
from tests.models.layouts import stirred


@pytest.mark.parametrize(
    ("name", "options"),
    [("resnet50", {"stem": "deep"}), ("resnet50", {"stem": "plain"}), ("vgg16", {}), ("vgg16_bn", {})],
)
def test_the_fast_pspnet_is_the_same_network(name, options):
    torch.manual_seed(0)
    network = stirred(PSPNet(build_backbone(name, **options)))
    fast = accelerate(network)
    for size in ((65, 65), (40, 97)):
        images = torch.randn(2, 3, *size)
        with torch.inference_mode():
            expected, actual = network(images), fast(images)
        assert expected.keys() == actual.keys()
        for layer in expected:
            error = (expected[layer] - actual[layer]).abs().max() / expected[layer].abs().max()
            assert error < 1e-5, layer


def test_norms_are_folded_into_convolutions():
    network = stirred(CompactNet(build_backbone("mobilenet_v2", dilated=False), width=32))
    fast = accelerate(network)
    assert any(isinstance(module, torch.nn.BatchNorm2d) for module in network.modules())
    assert not any(isinstance(module, torch.nn.BatchNorm2d) for module in fast.modules())
