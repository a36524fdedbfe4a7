"""The model that comes with the package."""

import hashlib

import pytest
import torch
from typer.testing import CliRunner

from repri import load_extractor
from repri.cli import app
from repri.models import embedded
from repri.models.checkpoints import read_tensors


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """A copy of the file that may be spoilt."""
    path = tmp_path / "embedded.safetensors"
    path.write_bytes(embedded.EMBEDDED.read_bytes())
    monkeypatch.setattr(embedded, "EMBEDDED", path)
    return path


def test_it_is_small_and_the_published_one():
    tensors, _ = read_tensors(embedded.EMBEDDED)
    assert embedded.EMBEDDED.stat().st_size < 15e6
    assert 1e6 < sum(tensor.numel() for tensor in tensors.values()) < 6e6
    assert all(tensor.dtype == torch.float16 for tensor in tensors.values())
    assert hashlib.sha256(embedded.EMBEDDED.read_bytes()).hexdigest() == embedded.SHA256


def test_it_is_the_default():
    extractor = load_extractor()
    assert extractor.fingerprint == load_extractor("default").fingerprint
    features = extractor.extract(torch.rand(1, 3, 129, 97))
    assert features.shape == (1, extractor.channels, 9, 7)
    assert features.isfinite().all()
    assert features.std() > 0


def test_objects_of_a_kind_look_alike_to_it():
    """Two people in two photographs are nearer to each other than to what is behind them."""
    import torch.nn.functional as F

    from repri.data.resize import resize
    from repri.experiments.demo import photographs

    extractor = load_extractor()
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
    done = CliRunner().invoke(app, ["info"])
    assert done.exit_code != 0
    assert "Traceback" not in done.output


def test_a_missing_file(elsewhere):
    elsewhere.unlink()
    with pytest.raises(ValueError, match=r"cannot be read \(No such file or directory.*install repri again"):
        load_extractor("default")


def test_what_it_does_not_take():
    with pytest.raises(ValueError, match="default takes no 'weights'"):
        load_extractor("default", "other.pth")


def test_info_names_it():
    done = CliRunner().invoke(app, ["info"])
    assert done.exit_code == 0, done.output
    assert "compact-" in done.output
    assert embedded.SHA256 in done.output
