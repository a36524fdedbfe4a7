"""PSPNet: sizes, shapes, and its factored bottleneck."""

import pytest
import torch

from repri.models.networks.build import build_backbone
from repri.models.networks.pspnet import PSPNet

HEAD_PARAMETERS = {
    2048: 4 * (2048 * 512 + 1024) + 4096 * 512 * 9 + 1024,
    512: 4 * (512 * 128 + 256) + 1024 * 512 * 9 + 1024,
}


@pytest.mark.parametrize("name", ["resnet50", "vgg16"])
def test_parameters_and_shapes(name):
    backbone = build_backbone(name)
    network = PSPNet(backbone, classes=16).eval()
    channels = backbone.channels["layer4"]
    total = sum(p.numel() for p in backbone.parameters()) + HEAD_PARAMETERS[channels] + 512 * 16 + 16
    assert sum(p.numel() for p in network.parameters()) == total
    with torch.inference_mode():
        outputs = network(torch.rand(1, 3, 65, 89))
    assert outputs["layer4"].shape == (1, channels, 9, 12)
    assert outputs["bottleneck"].shape == (1, 512, 9, 12)


def test_the_factored_bottleneck_is_the_bottleneck_gradients_too():
    network = PSPNet(build_backbone("vgg16"), dropout=0).double().train()
    x = torch.randn(2, 512, 7, 9, dtype=torch.float64, requires_grad=True)
    learned = [x, *network.ppm.parameters(), *network.bottleneck.parameters()]
    plain, factored = network.bottleneck(network.ppm(x)), network.factored_bottleneck(x)
    torch.testing.assert_close(factored, plain)
    wanted = torch.randn_like(plain)
    for a, b in zip(*(torch.autograd.grad(y, learned, wanted) for y in (factored, plain)), strict=True):
        torch.testing.assert_close(a, b)
