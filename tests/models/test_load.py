"""From a name to an extractor."""

from pathlib import Path

import pytest
import torch

from repri.models import ExtractorSettings, build_extractor, load_extractor
from repri.models.heads.convolution import Head
from repri.models.heads.files import save_head
from repri.runtime.errors import RepriError


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": "pspnet-resnet50"}, r"holds the backbone only, .*take its layers with layers=\('layer4',\)"),
        ({"name": "pspnet-resnet50", "layers": (-1,)}, "holds the backbone only"),
        ({"layers": "layer4"}, "layers must be a list of names"),
        ({"layers": ["layer9"]}, "resnet50 has no layer 'layer9'. Known: layer1"),
        ({"device": "gpu"}, "The device 'gpu' cannot be used"),
        ({"head": torch.nn.Identity()}, "must tell the number of its channels, as out_channels"),
        ({"name": "resnet101"}, "holds a resnet50, not the backbone of resnet101"),
        ({"stem": "deep"}, "has stem='plain', not 'deep'"),
        ({"colour": "red"}, "resnet50 has no option 'colour'. Known: bn_eps, dilated, stem, stride_in"),
        ({"weights": "resnet50-v2"}, "are not here yet: run repri weights get resnet50-v2"),
        ({"weights": "nonsense"}, "there are no known weights of that name"),
        ({"name": "resnet49"}, "There is no extractor named 'resnet49', did you mean 'resnet50'"),
        ({"name": "pspnet-mobilenet_v2"}, "There is no extractor named 'pspnet-mobilenet_v2'"),
        ({"name": "/no/such/folder"}, "There is no model folder at /no/such/folder"),
    ],
)
def test_names_and_files_must_agree(plain_resnet, tmp_path, monkeypatch, options, message):
    monkeypatch.setenv("REPRI_CACHE", str(tmp_path))
    with pytest.raises(RepriError, match=message):
        load_extractor(**{"name": "resnet50", "weights": plain_resnet} | options)


@pytest.mark.parametrize(
    ("name", "options", "refused"),
    [
        ("filters", {"weights": "resnet50"}, "weights"),
        ("filters", {"layers": [-1]}, "layers"),
        ("filters", {"combine": "mean"}, "combine"),
        ("filters", {"stem": "deep"}, "stem"),
        ("default", {"weights": "other.pth"}, "weights"),
        ("default", {"layers": ["layer3"]}, "layers"),
        ("distilled", {"weights": "other.pth"}, "weights"),
        ("distilled", {"bn_eps": 1e-3}, "bn_eps"),
        ("hub:some/model", {"weights": "other.pth"}, "weights"),
    ],
)
def test_options_that_an_extractor_does_not_take(name, options, refused):
    with pytest.raises(RepriError) as caught:
        load_extractor(name, **options)
    assert str(caught.value) == f"The extractor {name!r} takes no option {refused!r}."


def test_the_machine_is_no_concern_of_filters():
    extractor = load_extractor("filters", device="cuda:7", fast=False, compile=True)
    assert extractor.extract(torch.rand(1, 3, 16, 16)).shape == (1, 256, 4, 4)


def test_a_name_must_be_a_text_or_a_path():
    with pytest.raises(RepriError, match="An extractor has a name, such as 'default' or that of a file, got NoneType"):
        load_extractor(None)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(RepriError, match=r"There is no weights file at .*nothing\.safetensors"):
        load_extractor(tmp_path / "nothing.safetensors")


def test_stride_and_size_follow_the_layers(plain_resnet):
    for layer, options, stride in (("layer1", {}, 4), ("layer4", {"dilated": False}, 32)):
        extractor = load_extractor("resnet50", plain_resnet, layers=(layer,), **options)
        assert extractor.stride == stride
        assert extractor.extract(torch.rand(1, 3, 64, 64)).shape[-1] == 64 // stride
    half = extractor.extract(torch.rand(1, 3, 64, 64).half())
    assert half.dtype == torch.float32


def test_a_head_and_shifts_go_on_top():
    head = torch.nn.Conv2d(256, 6, 1)
    extractor = load_extractor("filters", head=head, shifts=2)
    assert (extractor.channels, extractor.stride, extractor.name) == (6, 2, "filters with a head, 2 shifts")


@pytest.fixture
def head_file(tmp_path):
    base = {"name": "filters", "weights": None, "layers": None, "combine": "concat", "size": 96, "seen": ["cat"]}
    base["identity"] = load_extractor("filters").identity
    save_head(tmp_path / "head.safetensors", Head(256, "conv", 8), base)
    return tmp_path / "head.safetensors"


def test_a_trained_head(head_file):
    extractor = load_extractor(head_file, device="cpu")
    assert (extractor.channels, extractor.seen, extractor.rule.size) == (8, ("cat",), 96)
    assert extractor.rounds
    with pytest.raises(RepriError, match=r"The extractor '.*head\.safetensors' takes no option 'layers'"):
        load_extractor(head_file, layers=[-1])


def test_a_head_of_another_extractor(tmp_path):
    save_head(tmp_path / "head.safetensors", Head(256, "conv", 8), {"name": "filters", "identity": "other"})
    with pytest.raises(RepriError, match=r"head\.safetensors was trained on another filters than the one that is here"):
        load_extractor(tmp_path / "head.safetensors")


@pytest.fixture
def joint_file(tmp_path):
    path = tmp_path / "joint.yaml"
    path.write_text("parts:\n- {name: distilled}\n- {name: filters, shifts: 2}\n")
    return path


def test_several_extractors_in_a_file(joint_file):
    joint, one = load_extractor(str(joint_file)), load_extractor("distilled")
    image = torch.rand(1, 3, 64, 96, generator=torch.Generator().manual_seed(0))
    features = joint.extract(image)
    assert features.shape == (1, 384 + 256, 4, 6)
    assert torch.equal(features[:, :384], one.extract(image))
    assert joint.fingerprint != one.fingerprint
    assert load_extractor(str(joint_file), shifts=2).extract(image).shape == (1, 640, 8, 12)
    with pytest.raises(RepriError, match=r"The extractor '.*joint\.yaml' takes no option 'layers'"):
        load_extractor(str(joint_file), layers=(-1,))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("parts: []", "A joint extractor needs at least one part"),
        ("parts: distilled", r"joint\.yaml must have one key, parts, with a list of extractors"),
        ("parts: [{name: filters}]\nsize: 3", r"joint\.yaml must have one key, parts"),
        ("parts: [{name: filters, layer: [1]}]", r"part 1: unknown setting 'layer', did you mean 'layers'"),
        ("parts: [{weights: x}]", r"part 1: the setting 'name' is missing"),
        ("parts: [{name: nosuch}]", "There is no extractor named 'nosuch'"),
    ],
)
def test_mistakes_in_a_file_of_several(tmp_path, text, message):
    path = tmp_path / "joint.yaml"
    path.write_text(text)
    with pytest.raises(RepriError, match=message):
        load_extractor(str(path))


def test_settings_build_an_extractor(tmp_path):
    assert build_extractor(ExtractorSettings()).name == "default"
    extractor = build_extractor(ExtractorSettings("distilled", layers=("layer2", -2), shifts=2))
    assert (extractor.under.layers, extractor.shifts) == (("layer2", "layer4"), 2)
    settings = ExtractorSettings("resnet50", weights=str(tmp_path / "fold{fold}.pth"))
    with pytest.raises(RepriError, match=r"There is no weights file at .*fold3\.pth"):
        build_extractor(settings, fold=3)
    with pytest.raises(RepriError, match=r"'default-fold\{fold\}' depends on the fold, and no fold was given"):
        build_extractor(ExtractorSettings("default-fold{fold}"))


def test_parts_may_see_the_image_at_another_size_and_be_projected():
    path = Path(__file__).parents[2] / "configs" / "networks" / "lowlevel-twin.yaml"
    joint = load_extractor(path)
    image = torch.rand(1, 3, 96, 128)
    features = joint.extract(image)
    assert features.shape == (1, 140 + 64, 48, 64)
    assert torch.equal(features[:, :140], load_extractor("lowlevel").extract(image))
    assert joint.widths[0] == 28


def test_a_file_does_not_fetch_a_model(tmp_path, monkeypatch):
    """Somebody else may have written the file: only what is on this computer is loaded."""
    monkeypatch.delenv("REPRI_FETCH", raising=False)
    path = tmp_path / "head.safetensors"
    save_head(path, Head(8, width=4), {"name": "hub:nobody/no-such-model"})
    with pytest.raises(RepriError, match=r"belongs on hub:nobody/no-such-model, .*set REPRI_FETCH=1 if you trust the"):
        load_extractor(path)


def test_files_that_name_themselves(tmp_path):
    path, other = tmp_path / "head.safetensors", tmp_path / "x.yaml"
    for name in (path, other):
        save_head(path, Head(8, width=4), {"name": str(name)})
        other.write_text(f"parts: [{{name: {path}}}]")
        with pytest.raises(RepriError, match="names itself as the extractor that it is made of"):
            load_extractor(path)
    other.write_text("parts: [" + "{name: filters}, " * 17 + "]")
    with pytest.raises(RepriError, match="lists 17 extractors under parts: 16 is the most"):
        load_extractor(other)
