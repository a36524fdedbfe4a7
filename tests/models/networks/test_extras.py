"""Optional libraries."""

import sys

import pytest

from repri.models import load_extractor
from repri.models.networks.extras import import_extra
from repri.runtime.errors import MissingExtraError


def test_a_missing_library_names_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(MissingExtraError, match=r"timm:resnet50d needs timm: pip install 'repri\[timm\]'"):
        load_extractor("timm:resnet50d")


def test_a_broken_library_names_the_reason(monkeypatch, tmp_path):
    (tmp_path / "broken_library.py").write_text("raise RuntimeError('built for another torch\\nand more')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(
        MissingExtraError, match=r"x needs broken_library, .* cannot be imported: built for another torch$"
    ):
        import_extra("broken_library", "hub", "x")
