"""ResNet-50 and -101: sizes, shapes, and the coarse equivalent."""

import pytest
import torch

from repri.models import load_extractor
from repri.models.networks.resnet import ResNet
from repri.runtime.errors import RepriError
from tests.models.layouts import stirred

PARAMETERS = {
    ("resnet50", "plain"): 23_508_032,
    ("resnet50", "deep"): 23_631_808,
    ("resnet101", "plain"): 42_500_160,
    ("resnet101", "deep"): 42_623_936,
}
"""Convolutions and norms of the published networks, without their ImageNet classifiers."""


@pytest.mark.parametrize(("name", "stem"), PARAMETERS)
def test_parameters(name, stem):
    with torch.device("meta"):
        assert sum(p.numel() for p in ResNet(name, stem).parameters()) == PARAMETERS[name, stem]


def test_shapes():
    with torch.inference_mode():
        outputs = ResNet().eval()(torch.rand(1, 3, 65, 89))
    grids = {"layer1": (256, 17, 23), "layer2": (512, 9, 12), "layer3": (1024, 9, 12), "layer4": (2048, 9, 12)}
    assert {layer: tuple(map.shape[1:]) for layer, map in outputs.items()} == grids


def test_417_pixels_give_53_cells():
    """Strides do not depend on the values, so the network needs no memory."""
    with torch.device("meta"):
        assert ResNet().eval()(torch.empty(1, 3, 417, 417))["layer4"].shape == (1, 2048, 53, 53)


def test_stride_in_the_first_convolution_keeps_shapes():
    torch.manual_seed(0)
    a = stirred(ResNet(stem="plain", stride_in="3x3", dilated=False))
    b = ResNet(stem="plain", stride_in="1x1", dilated=False).eval()
    b.load_state_dict(a.state_dict())
    images = torch.randn(1, 3, 64, 64)
    with torch.inference_mode():
        x, y = a(images), b(images)
    assert {k: v.shape for k, v in x.items()} == {k: v.shape for k, v in y.items()}
    assert x["layer4"].shape == (1, 2048, 2, 2)
    assert not torch.allclose(x["layer2"], y["layer2"])


@pytest.mark.parametrize("options", [{"stride_in": "1X1"}, {"stem": "dep"}, {"name": "resnet18"}])
def test_wrong_options_are_named(options):
    with pytest.raises(RepriError, match=r"stem 'deep' or 'plain' and stride_in '3x3' or '1x1', got 'resnet"):
        ResNet(**options)


@pytest.mark.filterwarnings("ignore:.*is untrained")
@pytest.mark.parametrize("stride_in", ["1x1", "3x3"])
@pytest.mark.parametrize(("layer", "times"), [("layer4", 2), ("layer4", 4), ("layer3", 2)])
def test_the_coarse_network_gives_some_cells_without_those_between(layer, times, stride_in):
    torch.manual_seed(0)
    every = load_extractor("resnet50", layers=[layer], stride_in=stride_in)
    image = torch.rand(1, 3, 75, 97)
    wanted, coarse = every.extract(image)[..., ::times, ::times], every.coarse(times)
    assert (coarse.stride, coarse.on_pixels, coarse.fingerprint == every.fingerprint) == (8 * times, True, False)
    torch.testing.assert_close(coarse.extract(image), wanted, rtol=1e-3, atol=1e-4 * float(wanted.abs().max()))
    assert every.coarse(3) is every
    assert every.coarse(1) is every
