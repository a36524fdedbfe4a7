"""The embedded model."""

import hashlib
import itertools
import subprocess
import sys

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image

from repri import load_extractor
from repri.data import load_example
from repri.data.io.classes import PASCAL
from repri.models.networks.mobile import MobileNet
from repri.models.weights import embedded
from repri.runtime.errors import RepriError
from repri.runtime.tensors import read_tensors


@pytest.fixture(scope="module")
def default():
    return load_extractor()


@pytest.fixture(scope="module")
def distilled():
    return load_extractor("distilled")


@pytest.fixture(scope="module")
def twin():
    return load_extractor("twin")


@pytest.fixture(params=["EMBEDDED", "TWIN", "HEADS", "WHITENING"])
def copied(request, tmp_path, monkeypatch):
    """A copy of a file of the model that may be damaged."""
    original = getattr(embedded, request.param)
    path = tmp_path / original.name
    path.write_bytes(original.read_bytes())
    monkeypatch.setattr(embedded, request.param, path)
    return path


def damage(path):
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(bytes(content))
    return hashlib.sha256(content).hexdigest()


def test_it_is_small_and_the_published_one():
    tensors = [*read_tensors(embedded.EMBEDDED)[0].values(), *read_tensors(embedded.TWIN)[0].values()]
    files = (embedded.EMBEDDED, embedded.TWIN, embedded.HEADS, embedded.WHITENING)
    digests = (embedded.SHA256, embedded.TWIN_SHA256, embedded.HEADS_SHA256, embedded.WHITENING_SHA256)
    assert sum(path.stat().st_size for path in files) < 20e6
    assert 1e6 < sum(tensor.numel() for tensor in tensors) < 8.1e6
    assert all(tensor.dtype == torch.float16 for tensor in tensors if tensor.is_floating_point())
    for path, digest in zip(files, digests, strict=True):
        assert hashlib.sha256(path.read_bytes()).hexdigest() == digest


def test_it_is_the_default(default):
    assert default.fingerprint == load_extractor("default").fingerprint
    features = default.extract(torch.rand(1, 3, 129, 97))
    assert features.shape == (1, default.channels, 9, 7)
    assert features.isfinite().all()
    assert features.std() > 0


def test_no_fold_has_seen_its_classes(default, distilled):
    """The head of a fold knows 15 of PASCAL's 20 classes; the network without a head knows none."""
    assert default.seen == PASCAL
    for fold in range(4):
        head, classes = embedded.embedded_head(f"default-fold{fold}")
        tested = PASCAL[5 * fold : 5 * fold + 5]
        assert classes == tuple(name for name in PASCAL if name not in tested)
        assert head.background.shape == (default.channels,)
        assert not torch.equal(head.matrix, default.head.matrix)
    extractor = load_extractor("default-fold3")
    assert (extractor.name, extractor.seen) == ("default-fold3", PASCAL[:15])
    assert extractor.fingerprint != default.fingerprint
    assert distilled.seen == ()
    assert distilled.background is None


def test_the_twin_shares_the_lower_layers(distilled, twin):
    """Its layers are those of the compact network, and those of ImageNet's network on the same lower layers."""
    images = torch.rand(1, 3, 97, 129)
    together = twin.extract(images)
    assert (twin.layers, twin.widths, twin.networks) == (("twin3", "twin4", "bottleneck"), (112, 192, 384), 2)
    assert torch.equal(together[:, -384:], distilled.extract(images))
    lower = distilled.network.backbone
    plain = MobileNet(dilated=False).eval()
    plain.load_state_dict(lower.state_dict())
    state = read_tensors(embedded.TWIN)[0]
    own = {key: state.get(key, value).float() for key, value in plain.state_dict().items()}
    plain.load_state_dict(own)
    mean, std = (torch.tensor(values).view(3, 1, 1) for values in (twin.rule.mean, twin.rule.std))
    with torch.inference_mode():
        outputs = plain((images - mean) / std)
        narrow = plain.layer4[:-1](outputs["layer3"])
    torch.testing.assert_close(together[:, :112], outputs["layer3"], rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(together[:, 112:304, ::2, ::2], narrow, rtol=1e-3, atol=1e-3)
    (alone,) = load_extractor("twin", layers=["twin4"]).extract(images)
    torch.testing.assert_close(alone, together[0, 112:304], rtol=1e-4, atol=1e-4)


def test_heads_are_linear_maps_of_one_network(twin):
    images = torch.rand(1, 3, 97, 97)
    head, _ = embedded.embedded_head("default-fold1")
    expected = head(twin.extract(images).half().float())
    torch.testing.assert_close(load_extractor("default-fold1").extract(images), expected)


def photograph(name):
    """Pixels [1, 3, H, W] in [0, 1] of a photograph of a person, and its mask [H, W]."""
    people = load_example("people")
    (shown,) = [item for item in people.support() + people.queries() if item.name == name]
    image = Image.fromarray(shown.image)
    scale = 417 / max(image.size)
    image = image.resize([round(side * scale) for side in image.size], Image.Resampling.BILINEAR)
    return torch.from_numpy(np.array(image)).permute(2, 0, 1)[None] / 255, torch.from_numpy(shown.mask)


def test_objects_of_a_kind_look_alike_to_it():
    """The features of two persons in two photographs are nearer to each other than to the backgrounds."""
    extractor = load_extractor("default-fold2")
    people, grounds = [], []
    for name in ("eileen_collins", "grace_hopper", "photographer"):
        image, mask = photograph(name)
        features = F.normalize(extractor.extract(image)[0], dim=0)
        covered = F.interpolate(mask[None, None].float(), features.shape[1:], mode="area")[0, 0]
        people.append(features[:, covered > 0.9].mean(1))
        grounds.append(features[:, covered < 0.1].mean(1))
    for i, j in itertools.permutations(range(3), 2):
        alike = F.cosine_similarity(people[i], people[j], dim=0)
        assert alike > F.cosine_similarity(people[i], grounds[j], dim=0) + 0.1


def test_a_damaged_file(copied):
    actual = damage(copied)
    sentence = f"{copied.name} of the embedded model is damaged: its sha256 is {actual[:16]}… instead of "
    with pytest.raises(RepriError, match=sentence) as caught:
        load_extractor()
    assert str(caught.value).endswith(": install repri again.")


def test_a_damaged_head_leaves_the_network(tmp_path, monkeypatch):
    monkeypatch.setattr(embedded, "HEADS", tmp_path / "discriminants.safetensors")
    assert load_extractor("distilled").channels == 384


def test_a_missing_file(copied):
    copied.unlink()
    with pytest.raises(RepriError, match=r"cannot be read \(No such file or directory.*install repri again"):
        load_extractor("default")


def test_a_command_says_that_a_file_is_damaged(tmp_path):
    path = tmp_path / "embedded.safetensors"
    path.write_bytes(embedded.EMBEDDED.read_bytes())
    actual = damage(path)
    script = f"""import sys; from pathlib import Path; from repri.models.weights import embedded
from repri.cli import main
embedded.EMBEDDED = Path({str(path)!r}); sys.argv = ["repri", "info"]; main()"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    assert f"of the embedded model is damaged: its sha256 is {actual[:16]}…" in done.stderr
    assert done.stderr.count("\n") == 1


def test_its_whitening(twin):
    assert twin.whitening is not None
    assert (twin.whitening.first, len(twin.whitening.mean)) == (112, 192)
    assert load_extractor("twin", layers=["twin4"]).whitening.first == 0
    assert load_extractor("twin", layers=["bottleneck"]).whitening is None
    assert load_extractor("distilled").whitening is None
    assert load_extractor("filters").whitening is None


@pytest.mark.parametrize("name", ["default", "default-fold2"])
def test_the_whitening_is_the_same_behind_a_head(name, twin):
    """A head keeps the directions in which the twin's features vary, so whitening sees through it."""
    image, _ = photograph("photographer")
    headed = load_extractor(name)
    expected = twin.whitening(twin.extract(image)[0])
    actual = headed.whitening(headed.extract(image)[0])
    assert F.cosine_similarity(actual, expected, dim=0).min() > 0.9999
