"""Files of other projects: written here in their exact layout, converted key by key."""

import pytest
import torch

from repri.features.extractor import IMAGENET
from repri.models import load_extractor
from repri.models.networks.mobile import MobileNet
from repri.models.networks.pspnet import PSPNet
from repri.models.weights.checkpoints import load_checkpoint, read_checkpoint
from repri.runtime.errors import RepriError
from tests.models.layouts import (
    random_backbone,
    same_tensors,
    stirred,
    to_authors_names,
    to_lite_names,
    to_mobilenet_names,
    to_resnet_names,
    to_vgg_names,
)


def written(state, tmp_path):
    torch.save(state, tmp_path / "w.pth")
    return read_checkpoint(tmp_path / "w.pth")


@pytest.mark.parametrize(
    ("name", "stem", "kind"),
    [("resnet50", "plain", "torchvision"), ("resnet50", "deep", "semseg"), ("resnet101", "deep", "semseg")],
)
def test_imagenet_resnets(tmp_path, name, stem, kind):
    backbone = random_backbone(name, stem=stem)
    checkpoint = written(to_resnet_names(backbone.state_dict()), tmp_path)
    assert (checkpoint.kind, checkpoint.complete) == (kind, False)
    assert checkpoint.config == {"backbone": name, "stem": stem}
    assert same_tensors(load_checkpoint(checkpoint), backbone)


@pytest.mark.parametrize("name", ["vgg16", "vgg16_bn"])
def test_imagenet_vggs(tmp_path, name):
    backbone = random_backbone(name)
    checkpoint = written(to_vgg_names(backbone.state_dict(), name == "vgg16_bn"), tmp_path)
    assert (checkpoint.kind, checkpoint.config) == ("torchvision", {"backbone": name})
    assert same_tensors(load_checkpoint(checkpoint), backbone)


def test_the_authors_models(authors_file, pspnet):
    checkpoint = read_checkpoint(authors_file)
    assert (checkpoint.kind, checkpoint.complete) == ("authors", True)
    assert checkpoint.config == {"backbone": "resnet50", "stem": "deep", "classes": 16}
    assert same_tensors(load_checkpoint(checkpoint), pspnet)


def test_the_authors_vggs_keep_all_poolings(tmp_path):
    network = PSPNet(random_backbone("vgg16", dilated=False), classes=6, width=8)
    checkpoint = written(to_authors_names(network.state_dict()), tmp_path)
    assert checkpoint.config == {"backbone": "vgg16", "dilated": False, "classes": 6}
    assert load_checkpoint(checkpoint).strides["bottleneck"] == 16


def test_torchvisions_mobilenet(tmp_path):
    network = stirred(MobileNet("mobilenet_v2"))
    checkpoint = written(to_mobilenet_names(network), tmp_path)
    assert (checkpoint.kind, checkpoint.config) == ("torchvision", {"backbone": "mobilenet_v2"})
    assert same_tensors(load_checkpoint(checkpoint), network)


def test_efficientnet_lite_takes_images_normalised_as_the_others(tmp_path):
    network = stirred(MobileNet("efficientnet_lite0"))
    checkpoint = written(to_lite_names(network), tmp_path)
    assert (checkpoint.kind, checkpoint.config) == ("lite", {"backbone": "efficientnet_lite0"})
    extractor = load_extractor("efficientnet_lite0", tmp_path / "w.pth", layers=("layer1",))
    assert extractor.rule == IMAGENET
    image = torch.rand(1, 3, 65, 65)
    with torch.inference_mode():
        expected = network((image * 255 - 127) / 128)["layer1"]
    # Zeros around the image mean another colour than in the published network: the border differs.
    inner = (..., slice(3, -3), slice(3, -3))
    torch.testing.assert_close(extractor.extract(image)[inner], expected[inner], rtol=1e-4, atol=1e-4)


def test_a_key_that_has_no_place_is_named(tmp_path):
    state = to_lite_names(MobileNet("efficientnet_lite0"))
    checkpoint = written(state | {"_blocks.16._bn1.bias": torch.zeros(3)}, tmp_path)
    with pytest.raises(RepriError, match=r"does not fit MobileNet: keys 1 unknown \(0\.spread\.1\.bias\)"):
        load_checkpoint(checkpoint)


def test_a_resnet_of_another_depth(tmp_path):
    keys = ["conv1.weight", "layer1.0.conv1.weight", *(f"layer3.{i}.conv1.weight" for i in range(36))]
    with pytest.raises(RepriError, match=r"w\.pth cannot be used\. The file holds a ResNet with 36 blocks in layer3"):
        written({key: torch.zeros(1) for key in keys}, tmp_path)
