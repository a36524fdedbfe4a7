"""Extractors of user code and of other packages."""

import pytest
import torch

from repri.models import EXTRACTORS, load_extractor, register_extractor
from repri.models.extractors.filters import FilterBank
from repri.runtime.errors import RepriError


@pytest.fixture(autouse=True)
def registry(monkeypatch):
    """A copy of the registry, so that tests leave no trace."""
    monkeypatch.setattr(EXTRACTORS, "_objects", dict(EXTRACTORS._objects))
    monkeypatch.setattr(EXTRACTORS, "_about", dict(EXTRACTORS._about))


def test_user_code_registers_a_builder():
    @register_extractor("mine", "a test")
    def build(channels=16, device="cpu"):
        assert device == "meta"
        return FilterBank(channels)

    extractor = load_extractor("mine", channels=8, device="meta", fast=False)
    assert extractor.channels == 8
    assert EXTRACTORS.about("mine") == "a test"
    assert load_extractor("mine", shifts=2, device="meta").stride == 2
    with pytest.raises(RepriError, match=r"^The extractor 'mine' takes no option 'layers'\.$"):
        load_extractor("mine", layers=[1])


def test_the_name_of_a_builder_that_takes_everything():
    given = {}

    @register_extractor("greedy")
    def build(**options):
        given.update(options)
        return FilterBank(8)

    load_extractor("greedy", "w.pth", answer=42)
    assert given == {"weights": "w.pth", "answer": 42, "device": "cpu", "fast": True, "compile": False}


def test_a_scheme_gets_the_rest_of_the_name():
    @register_extractor("bank:")
    def build(channels, stride=4):
        return FilterBank(int(channels), stride)

    extractor = load_extractor("bank:24", stride=8)
    assert (extractor.channels, extractor.stride) == (24, 8)
    with pytest.raises(RepriError, match="The extractor 'bank:' needs the name of a model after the colon"):
        load_extractor("bank:")


def test_another_package_adds_an_extractor(tmp_path, monkeypatch):
    """Through an entry point of the group ``repri.extractors``, as an installed package declares it."""
    (tmp_path / "other_package.py").write_text(
        "from repri.models.extractors.filters import FilterBank\ndef build(device='cpu'):\n    return FilterBank(12)\n"
    )
    info = tmp_path / "other_package-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: other-package\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[repri.extractors]\ntheirs = other_package:build\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert "theirs" in EXTRACTORS
    assert load_extractor("theirs").extract(torch.rand(1, 3, 16, 16)).shape == (1, 12, 4, 4)


def test_names_are_not_taken_twice():
    with pytest.raises(RepriError, match=r"There is already an? extractor named 'default'"):
        register_extractor("default")(lambda: FilterBank())


def test_a_builder_must_return_an_extractor():
    register_extractor("wrong")(lambda: 3)
    with pytest.raises(
        RepriError, match=r"The builder of the extractor 'wrong' must return a FeatureExtractor, but .* int"
    ):
        load_extractor("wrong")
