"""``repri weights``."""

import hashlib
import os

import pytest
import torch
from typer.testing import CliRunner

from repri.cli import weights
from repri.models.heads.convolution import Head
from repri.models.heads.files import save_head
from repri.models.networks.build import build_backbone
from repri.models.weights import known
from repri.models.weights.checkpoints import read_checkpoint
from repri.models.weights.embedded import EMBEDDED
from repri.runtime.errors import RepriError
from tests.models.layouts import to_mobilenet_names, to_resnet_names
from tests.regions.make import write_pair


@pytest.fixture(scope="module")
def deep_resnet(tmp_path_factory):
    """An untrained ResNet-50 with a deep stem, in the layout of semseg."""
    path = tmp_path_factory.mktemp("deep") / "file.pth"
    torch.save(to_resnet_names(build_backbone("resnet50").state_dict()), path)
    return path


@pytest.fixture
def mobilenet(tmp_path):
    path = tmp_path / "mobilenet_file.pth"
    torch.save(to_mobilenet_names(build_backbone("mobilenet_v2")), path)
    return path


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("REPRI_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("REPRI_OFFLINE", "1")
    return tmp_path / "cache" / "weights"


def repri(*arguments):
    """Run ``repri weights`` and return its output."""
    done = CliRunner().invoke(weights.app, [str(argument) for argument in arguments])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.output


def refused(sentence, *arguments):
    with pytest.raises(RepriError, match=sentence):
        repri(*arguments)


def test_the_list_fits_a_terminal(cache):
    cache.mkdir(parents=True)
    long = "a-name-that-is-longer-than-any-column-has-room-for"
    (cache / f"{long}.safetensors").write_bytes(bytes(3 << 20))
    output = repri("list")
    table, about = output.split("\n\n")
    assert all(len(line) <= 80 for line in table.splitlines())
    assert "resnet50-deep" in table
    assert "by hand" in table
    assert "0676ba61…" in table
    assert long in "".join(line.split(" ")[0] for line in table.splitlines())
    assert f"Folder: {cache}" in about


def test_a_file_is_fetched_with_a_bar(tmp_path, cache, monkeypatch, capsys):
    content = os.urandom(3_000_000)
    (tmp_path / "file").write_bytes(content)
    address = (tmp_path / "file").as_uri()
    entry = known.KNOWN["resnet50"]._replace(url=address, hash=hashlib.sha256(content).hexdigest())
    monkeypatch.setitem(known.KNOWN, "resnet50", entry)
    monkeypatch.delenv("REPRI_OFFLINE")
    weights.get("resnet50")
    assert (cache / "file").read_bytes() == content
    printed = capsys.readouterr()
    assert printed.out == f"resnet50: {cache / 'file'}\n"
    assert "3.0/3.0 MB" in printed.err


def test_files_that_cannot_be_fetched(cache, deep_resnet):
    with pytest.raises(ValueError, match=r"REPRI_OFFLINE is set, so .*resnet50-0676ba61\.pth is not fetched"):
        repri("get", "resnet50")
    refused("There are no known weights named 'resnet5'. Known: resnet50, ", "get", "resnet5")
    sentence = "resnet50-deep has no direct link: download it from .*, then run repri weights import FILE resnet50-deep"
    refused(sentence, "get", "resnet50-deep")
    repri("import", deep_resnet, "resnet50-deep")
    assert repri("get", "resnet50-deep") == f"resnet50-deep: {cache / 'resnet50-deep.pth'}\n"


def test_a_file_is_imported_under_a_known_name(cache, deep_resnet):
    assert repri("import", deep_resnet, "resnet50-deep") == f"resnet50-deep: {cache / 'resnet50-deep.pth'}\n"
    assert (cache / "resnet50-deep.pth").read_bytes() == deep_resnet.read_bytes()
    refused(
        r"file\.pth is not the file of resnet50: its sha256 is .* instead of 0676ba61…",
        "import",
        deep_resnet,
        "resnet50",
    )
    sentence = r"file\.pth holds resnet50 \(deep stem\), which is not resnet101-deep"
    refused(sentence, "import", deep_resnet, "resnet101-deep")


def test_a_file_is_imported_under_a_new_name(cache, mobilenet):
    assert repri("import", mobilenet) == f"mobilenet_file: {cache / 'mobilenet_file.pth'}\n"
    repri("import", mobilenet, "mine")
    assert "imported" in next(line for line in repri("list").splitlines() if line.startswith("mine "))
    refused("'a/b' cannot be a name of weights: give one without slashes", "import", mobilenet, "a/b")


def test_options_that_the_file_does_not_tell(cache, mobilenet, deep_resnet):
    repri("import", mobilenet, "mine", "--bn-eps", "1e-3", "--no-dilated")
    config = read_checkpoint(cache / "mine.safetensors").config
    assert config == {"backbone": "mobilenet_v2", "bn_eps": 1e-3, "dilated": False}
    refused("mobilenet_v2 has no option 'stem'. Known: bn_eps, dilated", "import", mobilenet, "x", "--stem", "deep")
    refused(r"has stem='deep', not 'plain'", "import", deep_resnet, "x", "--stem", "plain")
    refused("stride_in '3x3' or '1x1', got .*'2x2'", "import", deep_resnet, "x", "--stride-in", "2x2")
    sentence = "The weights efficientnet_lite0 are known as they are, without --bn-eps: give the file another name"
    refused(sentence, "import", EMBEDDED, "efficientnet_lite0", "--bn-eps", "1e-3")


def test_a_network_is_described():
    output = repri("check", EMBEDDED)
    assert "kind     repri\nholds    compact-efficientnet_lite0\noptions  dilated=False, size=417\n" in output
    assert "values   5.7 million in 275 tensors" in output
    assert "the file names no classes" in output


def test_a_foreign_file_is_described(mobilenet):
    assert "kind     torchvision\nholds    mobilenet_v2\noptions  none\n" in repri("check", mobilenet)


def test_a_head_is_described(tmp_path):
    path = tmp_path / "head.safetensors"
    save_head(path, Head(8, "conv", 4), {"name": "filters", "seen": ("cat", "dog")})
    output = repri("check", path)
    assert (
        "kind     repri-head\nholds    conv head on filters\noptions  channels=8, width=4, kernel=3, upsample=1\n"
        in output
    )
    assert "labels   trained with labels of cat, dog\n" in output


def test_a_region_model_is_imported_and_listed(tmp_path, cache):
    folder = write_pair(tmp_path / "pair", "sam")
    assert "mobile-sam" in repri("import", folder, "mobile-sam")
    assert (cache / "mobile-sam" / "decoder.onnx").is_file()
    (row,) = [line for line in repri("list").splitlines() if line.startswith("mobile-sam")]
    assert "yes" in row
    refused("cannot be the name of a region model", "import", folder, "resnet50")
    refused("holds no region model", "import", tmp_path, "mine")
    refused("REPRI_OFFLINE is set", "get", "sam2-tiny")
