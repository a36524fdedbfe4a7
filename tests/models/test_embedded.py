"""The model that comes with the package."""

import hashlib
import subprocess
import sys

import pytest
import torch
from typer.testing import CliRunner

from repri import Segmenter, load_extractor
from repri.cli import app
from repri.data.io.classes import PASCAL
from repri.models.weights import embedded
from repri.models.weights.checkpoints import read_tensors


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """A copy of the file that may be spoilt."""
    path = tmp_path / "embedded.safetensors"
    path.write_bytes(embedded.EMBEDDED.read_bytes())
    monkeypatch.setattr(embedded, "EMBEDDED", path)
    return path


def test_it_is_small_and_the_published_one():
    tensors, _ = read_tensors(embedded.EMBEDDED)
    files = (embedded.EMBEDDED, embedded.HEADS, embedded.WHITENING)
    assert sum(path.stat().st_size for path in files) < 15e6
    assert 1e6 < sum(tensor.numel() for tensor in tensors.values()) < 6e6
    assert all(tensor.dtype == torch.float16 for tensor in tensors.values())
    for path, digest in zip(files, (embedded.SHA256, embedded.HEADS_SHA256, embedded.WHITENING_SHA256), strict=True):
        assert hashlib.sha256(path.read_bytes()).hexdigest() == digest


def test_it_is_the_default():
    extractor = load_extractor()
    assert extractor.fingerprint == load_extractor("default").fingerprint
    features = extractor.extract(torch.rand(1, 3, 129, 97))
    assert features.shape == (1, extractor.channels, 9, 7)
    assert features.isfinite().all()
    assert features.std() > 0


def test_no_fold_has_seen_its_classes():
    """Of PASCAL's 20 classes a fold's head knows 15; what is made without labels knows none."""
    every = load_extractor().seen
    assert every == PASCAL
    for fold in range(4):
        extractor = load_extractor(f"default-fold{fold}")
        tested = PASCAL[5 * fold : 5 * fold + 5]
        assert extractor.seen == tuple(name for name in every if name not in tested)
        assert extractor.background.shape == (extractor.channels,)
        assert extractor.fingerprint != load_extractor().fingerprint
    assert load_extractor("distilled").seen == ()
    assert load_extractor("distilled").background is None


def test_heads_are_linear_maps_of_one_network():
    images = torch.rand(1, 3, 97, 97)
    plain, headed = (load_extractor(name) for name in ("distilled", "default-fold1"))
    head, _ = embedded.embedded_head("default-fold1")
    torch.testing.assert_close(headed.extract(images), head(plain.extract(images).half().float()))


def test_objects_of_a_kind_look_alike_to_it():
    """Two people in two photographs are nearer to each other than to what is behind them."""
    import torch.nn.functional as F

    from repri.experiments.demo import photographs
    from repri.features.view import resize

    extractor = load_extractor("default-fold2")
    for pair in photographs():
        people, grounds = [], []
        for picture in pair:
            item = resize(picture.image, picture.mask, "clean", extractor.rule.size)
            features = F.normalize(extractor.extract(item.image[None])[0], dim=0)
            share = F.interpolate(item.mask[None, None].float(), features.shape[1:], mode="area")[0, 0]
            people.append(features[:, share > 0.9].mean(1))
            grounds.append(features[:, share < 0.1].mean(1))
        alike = F.cosine_similarity(people[0], people[1], dim=0)
        assert alike > F.cosine_similarity(people[0], grounds[1], dim=0) + 0.1
        assert alike > F.cosine_similarity(people[1], grounds[0], dim=0) + 0.1


def test_a_damaged_file(elsewhere):
    content = bytearray(elsewhere.read_bytes())
    content[-5] ^= 1
    elsewhere.write_bytes(bytes(content))
    found = hashlib.sha256(content).hexdigest()
    sentence = f"is damaged: its sha256 is {found[:16]}…, expected {embedded.SHA256[:16]}…: install repri again"
    with pytest.raises(ValueError, match=sentence):
        load_extractor()
    for command in ("info", "demo", "evaluate"):
        script = f"""import sys; from pathlib import Path; from repri.models import embedded; from repri.cli import main
embedded.EMBEDDED = Path({str(elsewhere)!r}); sys.argv = ["repri", {command!r}]; main()"""
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=elsewhere.parent)
        assert done.returncode == 1, done.stderr
        assert sentence in done.stderr
        assert done.stderr.count("\n") == 1


def test_a_damaged_head(tmp_path, monkeypatch):
    content = bytearray(embedded.HEADS.read_bytes())
    content[-5] ^= 1
    monkeypatch.setattr(embedded, "HEADS", tmp_path / "discriminants.safetensors")
    embedded.HEADS.write_bytes(bytes(content))
    with pytest.raises(ValueError, match=r"discriminants\.safetensors is damaged.*install repri again"):
        load_extractor()
    assert load_extractor("distilled").channels == 384


def test_what_an_extractor_may_be_called(tmp_path):
    with pytest.raises(ValueError, match=r"nothing\.safetensors"):
        load_extractor(tmp_path / "nothing.safetensors")
    for call in (load_extractor, Segmenter):
        with pytest.raises(ValueError, match="an extractor has a name, such as 'default' or a file's, got NoneType"):
            call(None)


def test_a_missing_file(elsewhere):
    elsewhere.unlink()
    with pytest.raises(ValueError, match=r"cannot be read \(No such file or directory.*install repri again"):
        load_extractor("default")


def test_what_it_does_not_take():
    with pytest.raises(ValueError, match="default takes no 'weights'"):
        load_extractor("default", "other.pth")
    with pytest.raises(ValueError, match="default takes no 'layers'"):
        load_extractor("default", layers=["layer3"])


def test_info_names_it():
    done = CliRunner().invoke(app, ["info"])
    assert done.exit_code == 0, done.output
    assert "compact-" in done.output
    assert embedded.SHA256 in done.output
    assert embedded.HEADS_SHA256 in done.output
