"""Checkpoints: our own format, and networks from files."""

import pytest
import torch

from repri.models import load_extractor
from repri.models.networks.build import build_backbone
from repri.models.networks.mobile import CompactNet
from repri.models.weights.checkpoints import load_checkpoint, read_checkpoint, save_checkpoint
from repri.runtime.errors import RepriError
from tests.models.layouts import same_tensors

CONFIG = {"backbone": "mobilenet_v2", "dilated": False, "bn_eps": 1e-5, "classes": 16}


@pytest.fixture(scope="module")
def network():
    torch.manual_seed(0)
    return CompactNet(build_backbone("mobilenet_v2", dilated=False), classes=16, width=8).eval()


@pytest.fixture
def saved(network, tmp_path):
    save_checkpoint(tmp_path / "ours.safetensors", network.state_dict(), CONFIG)
    return tmp_path / "ours.safetensors"


def test_our_own_format(saved, network):
    checkpoint = read_checkpoint(saved)
    assert (checkpoint.kind, checkpoint.config, checkpoint.complete) == ("repri", CONFIG, True)
    assert same_tensors(load_checkpoint(checkpoint), network)
    assert same_tensors(load_checkpoint(checkpoint, whole=False), network.backbone)


def test_the_fingerprint_knows_layers_and_weights_and_nothing_else(saved, network, tmp_path):
    whole, layer = (load_extractor("compact-mobilenet_v2", saved, layers=layers) for layers in (None, ["layer4"]))
    assert whole.fingerprint != layer.fingerprint
    assert whole.fingerprint == load_extractor("compact-mobilenet_v2", saved, fast=False).fingerprint
    assert whole.fingerprint == load_extractor(saved).fingerprint
    state = {key: value.clone() for key, value in network.state_dict().items()}
    state["context.project.0.weight"][0, 0] += 1
    save_checkpoint(tmp_path / "changed.safetensors", state, CONFIG)
    assert load_extractor(tmp_path / "changed.safetensors").fingerprint != whole.fingerprint
    saved.rename(tmp_path / "renamed.pth")
    assert load_extractor("compact-mobilenet_v2", tmp_path / "renamed.pth").fingerprint == whole.fingerprint


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (CONFIG | {"attention": True}, "has settings that this version does not know: attention"),
        ({}, "is damaged: its metadata says that this project wrote it, but not which network it holds"),
    ],
)
def test_our_files_that_cannot_be_used(tmp_path, config, message):
    save_checkpoint(tmp_path / "x.safetensors", {"a": torch.zeros(1)}, config)
    with pytest.raises(RepriError, match=message):
        read_checkpoint(tmp_path / "x.safetensors")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"a": 1}, "holds no state dict of tensors: it is not a weights file that this project knows"),
        ({"encoder.0.weight": torch.zeros(1)}, "of no known kind .its first keys are encoder.0.weight"),
    ],
)
def test_foreign_files_that_cannot_be_used(tmp_path, content, message):
    torch.save(content, tmp_path / "w.pth")
    with pytest.raises(RepriError, match=message):
        read_checkpoint(tmp_path / "w.pth")


def test_options_that_contradict_the_file(plain_resnet, saved):
    with pytest.raises(RepriError, match=r"w\.pth has stem='plain', not 'deep'"):
        load_checkpoint(read_checkpoint(plain_resnet), stem="deep")
    with pytest.raises(RepriError, match=r"ours\.safetensors has dilated=False, not True"):
        load_checkpoint(read_checkpoint(saved), dilated=True)


def test_the_authors_model_as_an_extractor(authors_file, pspnet):
    extractor = load_extractor("pspnet-resnet50", authors_file)
    images = torch.rand(1, 3, 65, 65)
    mean, std = torch.tensor(extractor.rule.mean).view(3, 1, 1), torch.tensor(extractor.rule.std).view(3, 1, 1)
    with torch.inference_mode():
        expected = pspnet((images - mean) / std)["bottleneck"]
    torch.testing.assert_close(extractor.extract(images), expected, rtol=1e-4, atol=1e-5)
    trunk = load_extractor("resnet50", authors_file)
    assert trunk.channels == 2048
