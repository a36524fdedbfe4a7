"""VGG-16: sizes and shapes."""

import pytest
import torch

from repri.models.networks.vgg import VGG16


@pytest.mark.parametrize(("batch_norm", "parameters"), [(False, 14_714_688), (True, 14_723_136)])
def test_parameters(batch_norm, parameters):
    """Convolutions and norms of the published networks, without their ImageNet classifiers."""
    with torch.device("meta"):
        assert sum(p.numel() for p in VGG16(batch_norm).parameters()) == parameters


@pytest.mark.parametrize(("dilated", "stride"), [(True, 8), (False, 16)])
def test_shapes(dilated, stride):
    network = VGG16(dilated=dilated).eval()
    with torch.inference_mode():
        outputs = network(torch.rand(1, 3, 65, 89))
    assert outputs["layer4"].shape == (1, 512, -(-65 // stride), -(-89 // stride))
    assert network.strides["layer4"] == stride
    assert {layer: map.shape[1] for layer, map in outputs.items()} == network.channels


def test_417_pixels_give_53_cells():
    with torch.device("meta"):
        assert VGG16().eval()(torch.empty(1, 3, 417, 417))["layer4"].shape == (1, 512, 53, 53)
