"""Networks by settings, and the files that they become."""

import warnings

import pytest
import torch
import torch.nn as nn

from repri.models import load_extractor
from repri.models.networks.build import build_backbone
from repri.models.weights.checkpoints import save_checkpoint
from repri.runtime.errors import RepriError
from repri.training.build import build_trainee

PSPNET = {"network.name": "pspnet-resnet50", "network.freeze": "none"}


@pytest.mark.parametrize("kind", ["conv", "psp"])
def test_a_trained_head_becomes_an_extractor(make, kind, tmp_path):
    torch.manual_seed(0)
    trainee = build_trainee(make({"head.name": kind, "head.upsample": 2}), 4).eval()
    for module in trainee.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.1)
    trainee.export(tmp_path / "head.safetensors")
    image = torch.rand(1, 3, 64, 80)
    extractor = load_extractor(str(tmp_path / "head.safetensors"))
    assert (extractor.channels, extractor.stride) == (8, 2)
    with torch.inference_mode():
        stored = load_extractor("filters").extract(image).half().float()  # as it was in training
        expected = trainee.features(stored)
    torch.testing.assert_close(extractor.extract(image), expected.clone())
    assert extractor.fingerprint != load_extractor("filters").fingerprint


def test_a_pspnet_is_frozen_up_to_a_layer(make, tmp_path):
    torch.manual_seed(0)
    backbone = build_backbone("resnet50", stem="plain")
    weights = tmp_path / "resnet50.safetensors"
    state = {f"backbone.{k}": v for k, v in backbone.state_dict().items()}
    save_checkpoint(weights, state, {"backbone": "resnet50", "stem": "plain"})
    changes = {"network.weights": str(weights), "network.freeze": "layer3", "head.width": 32}
    trainee = build_trainee(make(PSPNET | changes), 4).train()
    images = torch.rand(2, 3, 33, 33)
    before = {k: v.clone() for k, v in trainee.state_dict().items()}
    features = trainee.trunk.extract(images)
    assert features.shape == (2, 1024, 5, 5)
    trainee(features)[1].sum().backward()
    torch.optim.SGD([p for p in trainee.parameters() if p.requires_grad], 0.1).step()
    changed = {k for k, v in trainee.state_dict().items() if not torch.equal(v, before[k])}
    assert not any(f"layer{i}." in key for key in changed for i in range(4))
    assert any("layer4." in key for key in changed)
    assert any("running_mean" in key for key in changed)
    trainee.eval().export(tmp_path / "model.safetensors")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        extractor = load_extractor(str(tmp_path / "model.safetensors"))
    with torch.inference_mode():
        expected = trainee.features(features)
    assert extractor.rule == trainee.rule._replace(size=64)
    torch.testing.assert_close(extractor.extract(images), expected.clone(), atol=1e-4, rtol=1e-3)


def test_weights_must_be_of_the_backbone(make, mobilenet):
    with pytest.raises(RepriError, match=r"mobilenet\.safetensors holds a mobilenet_v2, but the network is pspnet-"):
        build_trainee(make(PSPNET | {"network.weights": mobilenet}), 4)


def test_recomputing_gives_the_same_gradient(make):
    gradients = []
    for recompute in (False, True):
        torch.manual_seed(0)
        trainee = build_trainee(make(PSPNET | {"head.dropout": 0.0, "network.recompute": recompute}), 3).train()
        x = torch.rand(2, 3, 33, 33, generator=torch.Generator().manual_seed(1))
        trainee(x)[1].square().mean().backward()
        gradients.append([p.grad for p in trainee.parameters()])
    assert all(torch.allclose(a, b, rtol=1e-3, atol=1e-5) for a, b in zip(*gradients, strict=True))


def test_only_what_follows_the_frozen_layer_learns(make, pupil):
    trainee = build_trainee(make(pupil), 4).train()
    before = {key: value.clone() for key, value in trainee.state_dict().items()}
    images = torch.rand(2, 3, 65, 65)
    features, logits = trainee(trainee.trunk.extract(images))
    assert logits is None
    features.square().sum().backward()
    torch.optim.SGD([p for p in trainee.parameters() if p.requires_grad], 0.1).step()
    changed = {key for key, value in trainee.state_dict().items() if not torch.equal(value, before[key])}
    assert not any(f"layer{i}." in key for key in changed for i in (0, 1, 2))
    assert all(any(part in key for key in changed) for part in ("layer3.", "layer4.", "mix.", "bottleneck."))
