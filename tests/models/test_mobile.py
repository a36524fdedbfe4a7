"""MobileNets and the compact network: shapes, foreign files, equivalents."""

import pytest
import torch

from repri.features.extractor import IMAGENET
from repri.models import load_extractor
from repri.models.load import build_backbone, load_checkpoint
from repri.models.networks.mobile import STAGES, CompactNet, MobileNet
from repri.models.weights.checkpoints import read_checkpoint, save_checkpoint

BLOCKS = {"mobilenet_v2": 17, "efficientnet_lite0": 16}


def stirred(network):
    """Every tensor different, variances positive, activations neither dead nor saturated."""
    g = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for key, tensor in network.state_dict().items():
            if key.endswith(("running_mean", "bias")):
                tensor.normal_(0, 0.2, generator=g)
            elif key.endswith("running_var") or (tensor.ndim == 1 and tensor.dtype.is_floating_point):
                tensor.uniform_(0.5, 1.5, generator=g)
    return network.eval()


def numbered_blocks(network):
    """Blocks in their order, wherever they stand."""
    layers = [network.get_submodule(f"layer{i}") for i in range(5)]
    return [block for i, layer in enumerate(layers) for block in list(layer)[i == 0 :]]


def to_torchvision(network):
    """As torchvision names them: the last convolution of a block and its norm stand one level higher."""
    state = {f"features.0.{key}": value for key, value in network.layer0[0].state_dict().items()}
    for n, block in enumerate(numbered_blocks(network), 1):
        steps = [block.spread] if n == 1 else [block.expand, block.spread]
        for i, step in enumerate(steps):
            state |= {f"features.{n}.conv.{i}.{key}": value for key, value in step.state_dict().items()}
        for i, module in enumerate(block.project):
            state |= {f"features.{n}.conv.{len(steps) + i}.{key}": value for key, value in module.state_dict().items()}
    last = {"features.18.0.weight": torch.zeros(1280, 320, 1, 1), "features.18.1.bias": torch.zeros(1280)}
    return state | last | {"classifier.1.weight": torch.zeros(1000, 1280)}


def to_lite(network):
    names = {"expand": ("_expand_conv", "_bn0"), "spread": ("_depthwise_conv", "_bn1")}
    names["project"] = ("_project_conv", "_bn2")
    stem = ("_conv_stem", "_bn0")
    state = {f"{stem[int(key[0])]}.{key[2:]}": value for key, value in network.layer0[0].state_dict().items()}
    for n, block in enumerate(numbered_blocks(network)):
        for step, theirs in names.items():
            tensors = block.get_submodule(step).state_dict()
            state |= {f"_blocks.{n}.{theirs[int(key[0])]}.{key[2:]}": value for key, value in tensors.items()}
    return state | {"_conv_head.weight": torch.zeros(4), "_bn1.bias": torch.zeros(4), "_fc.weight": torch.zeros(4, 4)}


@pytest.mark.parametrize("name", list(STAGES))
def test_layers(name):
    network = MobileNet(name).eval()
    assert len(numbered_blocks(network)) == BLOCKS[name]
    with torch.inference_mode():
        outputs = network(torch.rand(1, 3, 65, 97))
        outer = MobileNet(name, dilated=False).eval()(torch.rand(1, 3, 65, 97))["layer4"]
    found = {layer: tuple(map.shape[1:]) for layer, map in outputs.items()}
    grids = {"layer1": (17, 25), "layer2": (9, 13), "layer3": (5, 7), "layer4": (5, 7)}
    assert found == {layer: (network.channels[layer], *grid) for layer, grid in grids.items()}
    assert network.strides == {"layer1": 4, "layer2": 8, "layer3": 16, "layer4": 16}
    assert outer.shape[-2:] == (3, 4)


def test_torchvisions_mobilenet(tmp_path):
    network = stirred(MobileNet("mobilenet_v2"))
    torch.save(to_torchvision(network), tmp_path / "w.pth")
    checkpoint = read_checkpoint(tmp_path / "w.pth")
    assert (checkpoint.kind, checkpoint.config) == ("torchvision", {"backbone": "mobilenet_v2"})
    loaded = load_checkpoint(checkpoint)
    assert all(torch.equal(value, network.state_dict()[key]) for key, value in loaded.state_dict().items())


def test_efficientnet_lite_takes_pictures_normalised_as_the_others(tmp_path):
    network = stirred(MobileNet("efficientnet_lite0"))
    torch.save(to_lite(network), tmp_path / "w.pth")
    checkpoint = read_checkpoint(tmp_path / "w.pth")
    assert (checkpoint.kind, checkpoint.config) == ("lite", {"backbone": "efficientnet_lite0"})
    extractor = load_extractor("efficientnet_lite0", tmp_path / "w.pth", layers=("layer1",))
    assert extractor.rule == IMAGENET
    image = torch.rand(1, 3, 65, 65)
    with torch.inference_mode():
        expected = network((image * 255 - 127) / 128)["layer1"]
    # Zeros around the picture mean another colour than they did: the border differs.
    inner = (..., slice(3, -3), slice(3, -3))
    torch.testing.assert_close(extractor.extract(image)[inner], expected[inner], rtol=1e-4, atol=1e-4)


def test_a_foreign_file_with_a_key_too_many(tmp_path):
    state = to_lite(MobileNet("efficientnet_lite0"))
    torch.save(state | {"_blocks.16._bn1.bias": torch.zeros(3)}, tmp_path / "w.pth")
    with pytest.raises(ValueError, match=r"does not fit MobileNet: keys 1 unknown"):
        load_checkpoint(read_checkpoint(tmp_path / "w.pth"))


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


def test_names_that_do_not_exist():
    with pytest.raises(ValueError, match="unknown extractor 'pspnet-mobilenet_v2'"):
        load_extractor("pspnet-mobilenet_v2")
    with pytest.raises(ValueError, match=r"no option 'stem'"):
        build_backbone("mobilenet_v2", stem="deep")
    with pytest.warns(UserWarning, match="untrained"):
        assert load_extractor("compact-mobilenet_v2").channels == 384
