"""Features in which all directions vary alike."""

import hashlib

import pytest
import torch
import torch.nn.functional as F

from repri import load_extractor
from repri.models import whitening_of
from repri.models.weights import embedded


def test_strong_directions_are_held_down():
    """Two kinds differ in a weak direction, drowned by a strong one: whitened, cosines tell them apart."""
    draw = torch.Generator().manual_seed(0)
    noise = torch.randn(4000, 16, generator=draw) * torch.tensor([3.0, 2.0] + [0.05] * 14)
    kinds = torch.arange(4000) % 2
    noise[:, 5] += 0.4 * (2 * kinds - 1)
    rows = F.normalize(noise, dim=1)
    found = whitening_of(rows)
    assert found.basis.shape == (16, 16)
    white = found(rows.T).T

    def told_apart(x):
        """How often a row is more alike to one of its kind than to one of the other."""
        same, other = (x[:-2] * x[2:]).sum(1), (x[:-2] * x[1:-1]).sum(1)
        return float((same > other).float().mean())

    assert told_apart(white) > told_apart(rows) + 0.1
    torch.testing.assert_close(white.norm(dim=1), torch.ones(len(white)))


def test_it_is_the_inverse_root_of_the_covariance():
    rows = F.normalize(torch.randn(500, 8, generator=torch.Generator().manual_seed(1)), dim=1)
    found = whitening_of(rows)
    centred = (rows - rows.mean(0)).double()
    covariance = centred.T @ centred / len(rows)
    floored = covariance + 0.1 * covariance.diagonal().mean() * torch.eye(8)
    torch.testing.assert_close((found.basis @ found.basis.T).double(), floored.inverse(), rtol=1e-4, atol=1e-3)
    assert whitening_of(rows, 3).basis.shape == (8, 3)


def test_what_comes_with_the_embedded_model():
    extractor = load_extractor("distilled")
    assert extractor.whitening is not None
    assert len(extractor.whitening.mean) == extractor.channels
    assert load_extractor("distilled", layers=["layer3"]).whitening is None
    assert load_extractor("filters").whitening is None


def test_a_linear_map_is_seen_through():
    """Whitened, features with a discriminant are those without it."""
    images = torch.rand(1, 3, 97, 129)
    plain, headed = load_extractor("distilled"), load_extractor("default")
    expected = plain.whitening(plain.extract(images)[0])
    found = headed.whitening(headed.extract(images)[0])
    torch.testing.assert_close(found, expected, rtol=0, atol=5e-3)
    assert F.cosine_similarity(found, expected, dim=0).min() > 0.9999


def test_a_damaged_file(tmp_path, monkeypatch):
    content = bytearray(embedded.WHITENING.read_bytes())
    content[-5] ^= 1
    (tmp_path / "whitening.safetensors").write_bytes(bytes(content))
    monkeypatch.setattr(embedded, "WHITENING", tmp_path / "whitening.safetensors")
    sentence = f"whitening.safetensors is damaged: its sha256 is {hashlib.sha256(content).hexdigest()[:16]}…"
    with pytest.raises(ValueError, match=sentence):
        load_extractor()
