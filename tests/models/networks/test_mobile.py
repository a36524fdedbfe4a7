"""MobileNets and the compact network: shapes, the head, and the way through a file."""

import pytest
import torch

from repri.features.extractor import IMAGENET
from repri.models import load_extractor
from repri.models.networks.build import build_backbone
from repri.models.networks.mobile import STAGES, CompactNet, MobileNet
from repri.models.weights.checkpoints import save_checkpoint
from repri.runtime.errors import RepriError
from tests.models.layouts import numbered_blocks, stirred

BLOCKS = {"mobilenet_v2": 17, "efficientnet_lite0": 16}


@pytest.mark.parametrize("name", list(STAGES))
def test_layers(name):
    network = MobileNet(name).eval()
    assert len(numbered_blocks(network)) == BLOCKS[name]
    with torch.inference_mode():
        outputs = network(torch.rand(1, 3, 65, 97))
        outer = MobileNet(name, dilated=False).eval()(torch.rand(1, 3, 65, 97))["layer4"]
    shapes = {layer: tuple(map.shape[1:]) for layer, map in outputs.items()}
    grids = {"layer1": (17, 25), "layer2": (9, 13), "layer3": (5, 7), "layer4": (5, 7)}
    assert shapes == {layer: (network.channels[layer], *grid) for layer, grid in grids.items()}
    assert network.strides == {"layer1": 4, "layer2": 8, "layer3": 16, "layer4": 16}
    assert outer.shape[-2:] == (3, 4)


@pytest.mark.parametrize("classes", [None, 4])
def test_a_compact_network_from_its_file(tmp_path, classes):
    torch.manual_seed(0)
    network = stirred(CompactNet(build_backbone("efficientnet_lite0", dilated=False), classes, width=48))
    config = {"backbone": "efficientnet_lite0", "dilated": False, "classes": classes, "size": 129}
    save_checkpoint(tmp_path / "c.safetensors", network.state_dict(), config)
    extractor = load_extractor(str(tmp_path / "c.safetensors"))
    assert (extractor.name, extractor.channels, extractor.stride) == ("compact-efficientnet_lite0", 48, 16)
    assert extractor.rule == IMAGENET._replace(size=129)
    image = torch.rand(2, 3, 97, 65)
    mean, std = (torch.tensor(values).view(3, 1, 1) for values in (IMAGENET.mean, IMAGENET.std))
    with torch.inference_mode():
        expected = network((image - mean) / std)["bottleneck"]
    assert expected.shape == (2, 48, 7, 5)
    assert expected.min() < 0 < expected.max()
    torch.testing.assert_close(extractor.extract(image), expected.clone(), rtol=1e-3, atol=1e-4)
    slow = load_extractor(str(tmp_path / "c.safetensors"), fast=False)
    assert slow.fingerprint == extractor.fingerprint
    third = load_extractor(str(tmp_path / "c.safetensors"), layers=("layer3",))
    assert third.extract(image).shape == (2, 112, 7, 5)


def test_the_context_reaches_every_cell():
    torch.manual_seed(0)
    network = stirred(CompactNet(MobileNet("mobilenet_v2", dilated=False), width=32))
    fine, coarse = torch.rand(1, 96, 6, 6), torch.rand(1, 320, 3, 3)
    with torch.inference_mode():
        before = network.head(fine, coarse)
        fine[..., 0, 0] += 1
        changed = (network.head(fine, coarse) - before).abs().amax(1)[0]
    assert changed.min() > 0
    assert changed[0, 0] == changed.max()


def test_an_unknown_name():
    with pytest.raises(RepriError, match="A MobileNet is one of mobilenet_v2, efficientnet_lite0, got 'mobilenet_v9'"):
        MobileNet("mobilenet_v9")
