"""Foreign formats: written here in their exact layout, read back key by key."""

import pytest
import torch

from repri.models import load_extractor
from repri.models.load import build_backbone, load_checkpoint
from repri.models.networks.pspnet import PSPNet
from repri.models.weights.checkpoints import read_checkpoint, save_checkpoint


def random_backbone(name, **options):
    """Every tensor different, so that no two can be mistaken for each other."""
    backbone = build_backbone(name, **options)
    with torch.no_grad():
        for tensor in backbone.state_dict().values():
            if tensor.dtype.is_floating_point:
                tensor.uniform_(0.1, 1.0)
    return backbone


def to_resnet_names(state, deep):
    """Our backbone's state dict under the names that ImageNet files use."""
    stem = {"0": "conv1", "1": "bn1", "3": "conv2", "4": "bn2", "6": "conv3", "7": "bn3"}
    renamed = {}
    for key, value in state.items():
        parts = key.split(".")
        if parts[0] == "layer0":
            parts = [stem[parts[1]], *parts[2:]]
        renamed[".".join(parts)] = value
    assert ("conv3.weight" in renamed) == deep
    return renamed | {"fc.weight": torch.zeros(1000, 2048), "fc.bias": torch.zeros(1000)}


def to_vgg_names(state, batch_norm):
    """… under torchvision's ``features.N``: modules numbered through, poolings counted."""
    per = 3 if batch_norm else 2
    starts = [0, 2 * per + 1, 4 * per + 2, 7 * per + 3, 10 * per + 4]
    renamed = {}
    for key, value in state.items():
        group, index, leaf = key.split(".")
        renamed[f"features.{starts[int(group[-1])] + int(index)}.{leaf}"] = value
    return renamed | {"classifier.0.weight": torch.zeros(4, 4)}


@pytest.mark.parametrize(
    ("name", "stem", "kind"),
    [("resnet50", "plain", "torchvision"), ("resnet50", "deep", "semseg"), ("resnet101", "deep", "semseg")],
)
def test_imagenet_resnets(tmp_path, name, stem, kind):
    backbone = random_backbone(name, stem=stem)
    torch.save(to_resnet_names(backbone.state_dict(), stem == "deep"), tmp_path / "w.pth")
    checkpoint = read_checkpoint(tmp_path / "w.pth")
    assert (checkpoint.kind, checkpoint.complete) == (kind, False)
    assert checkpoint.config == {"backbone": name, "stem": stem}
    loaded = load_checkpoint(checkpoint)
    assert all(
        torch.equal(a, b) for a, b in zip(backbone.state_dict().values(), loaded.state_dict().values(), strict=True)
    )


@pytest.mark.parametrize("name", ["vgg16", "vgg16_bn"])
def test_imagenet_vggs(tmp_path, name):
    backbone = random_backbone(name)
    torch.save(to_vgg_names(backbone.state_dict(), name == "vgg16_bn"), tmp_path / "w.pth")
    loaded = load_checkpoint(read_checkpoint(tmp_path / "w.pth"))
    assert all(
        torch.equal(a, b) for a, b in zip(backbone.state_dict().values(), loaded.state_dict().values(), strict=True)
    )
    extractor = load_extractor(name, tmp_path / "w.pth", layers=["layer3", "layer4"], combine="mean")
    assert extractor.extract(torch.rand(1, 3, 48, 48)).shape == (1, 512, 6, 6)


@pytest.fixture(scope="module")
def trained():
    return PSPNet(build_backbone("resnet50"), classes=16).eval()


def test_the_authors_models(tmp_path, trained):
    state = {f"module.{k.removeprefix('backbone.')}": v for k, v in trained.state_dict().items()}
    torch.save({"epoch": 100, "state_dict": state, "optimizer": {"lr": 0.1}}, tmp_path / "best.pth")
    checkpoint = read_checkpoint(tmp_path / "best.pth")
    assert (checkpoint.kind, checkpoint.complete) == ("authors", True)
    assert checkpoint.config == {"backbone": "resnet50", "stem": "deep", "classes": 16}
    extractor = load_extractor("pspnet-resnet50", tmp_path / "best.pth")
    images = torch.rand(1, 3, 65, 65)
    mean, std = torch.tensor(extractor.rule.mean).view(3, 1, 1), torch.tensor(extractor.rule.std).view(3, 1, 1)
    with torch.inference_mode():
        expected = trained((images - mean) / std)["bottleneck"]
    torch.testing.assert_close(extractor.extract(images), expected, rtol=1e-4, atol=1e-5)
    trunk = load_extractor("resnet50", tmp_path / "best.pth")
    assert trunk.channels == 2048


def test_our_own_format(tmp_path, trained):
    config = {"backbone": "resnet50", "stem": "deep", "stride_in": "3x3", "bn_eps": 1e-5, "classes": 16}
    save_checkpoint(tmp_path / "ours.safetensors", trained.state_dict(), config)
    checkpoint = read_checkpoint(tmp_path / "ours.safetensors")
    assert (checkpoint.kind, checkpoint.config) == ("repri", config)
    a = load_extractor("pspnet-resnet50", tmp_path / "ours.safetensors")
    b = load_extractor("pspnet-resnet50", tmp_path / "ours.safetensors", layers=["layer4"])
    assert a.fingerprint != b.fingerprint
    assert a.fingerprint == load_extractor("pspnet-resnet50", tmp_path / "ours.safetensors", fast=False).fingerprint
    state = {key: value.clone() for key, value in trained.state_dict().items()}
    state["ppm.features.0.1.weight"][0, 0] += 1
    save_checkpoint(tmp_path / "changed.safetensors", state, config)
    assert load_extractor("pspnet-resnet50", tmp_path / "changed.safetensors").fingerprint != a.fingerprint
    (tmp_path / "ours.safetensors").rename(tmp_path / "renamed.pth")  # told by content, not by name
    assert load_extractor("pspnet-resnet50", tmp_path / "renamed.pth").fingerprint == a.fingerprint

    save_checkpoint(tmp_path / "future.safetensors", state, config | {"attention": True})
    with pytest.raises(ValueError, match="settings that this version does not know: attention"):
        read_checkpoint(tmp_path / "future.safetensors")
    save_checkpoint(tmp_path / "empty.safetensors", state, {})
    with pytest.raises(ValueError, match="not which network it holds"):
        read_checkpoint(tmp_path / "empty.safetensors")


def test_wrong_keys_are_listed(tmp_path):
    state = to_resnet_names(build_backbone("resnet50", stem="plain").state_dict(), deep=False)
    del state["layer2.0.conv1.weight"]
    state["layer1.0.conv9.weight"] = torch.zeros(1)
    state["layer4.0.bn1.bias"] = torch.zeros(3)
    torch.save(state, tmp_path / "w.pth")
    with pytest.raises(ValueError, match="does not fit ResNet") as caught:
        load_checkpoint(read_checkpoint(tmp_path / "w.pth"))
    message = str(caught.value)
    assert "1 missing (layer2.0.conv1.weight)" in message
    assert "1 unknown (layer1.0.conv9.weight)" in message
    assert "1 of another shape (layer4.0.bn1.bias: [3] instead of [512])" in message


class Evil:
    def __reduce__(self):
        return print, ("executed",)


def test_files_that_cannot_be_used(tmp_path, capsys):
    def refused(path, message):
        with pytest.raises(ValueError, match=message) as caught:
            read_checkpoint(path)
        assert "\n" not in str(caught.value)

    refused(tmp_path / "nowhere.pth", "no weights file at")
    for name in ("text.pth", "text.safetensors"):
        (tmp_path / name).write_text("hello")
        refused(tmp_path / name, "damaged, no weights file")
    torch.save({"state_dict": {"a": torch.zeros(1)}, "x": Evil()}, tmp_path / "evil.pth")
    refused(tmp_path / "evil.pth", "a pickle that holds more than that")
    assert "executed" not in capsys.readouterr().out
    torch.save([1, 2], tmp_path / "list.pth")
    refused(tmp_path / "list.pth", "holds a list, not a state dict")
    torch.save({"a": 1}, tmp_path / "numbers.pth")
    refused(tmp_path / "numbers.pth", "no state dict of tensors")
    torch.save({"encoder.0.weight": torch.zeros(1)}, tmp_path / "other.pth")
    refused(tmp_path / "other.pth", "of no known kind .its keys start encoder.0.weight")


def test_names_and_files_must_agree(tmp_path):
    torch.save(to_resnet_names(build_backbone("resnet50", stem="plain").state_dict(), False), tmp_path / "w.pth")
    cases = [
        (("pspnet-resnet50", tmp_path / "w.pth"), {}, "holds the backbone only.*layers="),
        (("pspnet-resnet50", tmp_path / "w.pth"), {"layers": (-1,)}, "holds the backbone only"),
        (("resnet50", tmp_path / "w.pth"), {"layers": "layer4"}, "layers must be a list of names"),
        (("resnet50", tmp_path / "w.pth"), {"device": "gpu"}, "device 'gpu' cannot be used"),
        (("resnet50", tmp_path / "w.pth"), {"head": torch.nn.Identity()}, "as out_channels"),
        (("resnet101", tmp_path / "w.pth"), {}, "holds a resnet50, not the backbone of resnet101"),
        (("resnet50", tmp_path / "w.pth"), {"stem": "deep"}, "has stem='plain', not 'deep'"),
        (("resnet50", tmp_path / "w.pth"), {"layers": ["layer9"]}, "no layer 'layer9'; known: layer1"),
        (("resnet50", "resnet50-v2"), {}, "repri weights get resnet50-v2"),
        (("resnet50", "nonsense"), {}, "no known weights of that name"),
        (("resnet49", None), {}, "unknown extractor 'resnet49'"),
        (("filters", "resnet50"), {}, "filters takes no 'weights'"),
    ]
    for arguments, options, message in cases:
        with pytest.raises(ValueError, match=message):
            load_extractor(*arguments, **options)


def test_stride_and_size_follow_the_layers(tmp_path):
    torch.save(to_resnet_names(build_backbone("resnet50", stem="plain").state_dict(), False), tmp_path / "w.pth")
    for layer, options, stride in (("layer1", {}, 4), ("layer4", {}, 8), ("layer4", {"dilated": False}, 32)):
        extractor = load_extractor("resnet50", tmp_path / "w.pth", layers=(layer,), **options)
        assert extractor.stride == stride
        assert extractor.extract(torch.rand(1, 3, 64, 64)).shape[-1] == 64 // stride
    half = extractor.extract(torch.rand(1, 3, 64, 64).half())
    assert half.dtype == torch.float32


def test_untrained_networks_warn():
    with pytest.warns(UserWarning, match="untrained"):
        extractor = load_extractor("pspnet-resnet50")
    assert extractor.extract(torch.rand(1, 3, 33, 41)).shape == (1, 512, 5, 6)
    for wrong, message in (
        (torch.zeros(1, 3, 33, 41, dtype=torch.uint8), "divide by 255"),
        (torch.zeros(3, 33, 41), "a tensor .B, 3, H, W., got .3, 33, 41."),
        (torch.zeros(1, 3, 0, 41), "got .1, 3, 0, 41."),
        ([1, 2], "got list"),
    ):
        with pytest.raises(ValueError, match=message):
            extractor.extract(wrong)
