"""Packages whose names are imported on first use."""

import sys

import pytest

from repri.runtime.lazy import lazy_names


def test_a_module_is_imported_when_its_name_is_used(tmp_path, monkeypatch):
    (tmp_path / "drawer").mkdir()
    (tmp_path / "drawer" / "__init__.py").write_text(
        "from repri.runtime.lazy import lazy_names\n__getattr__ = lazy_names(__name__, {'spoon': '.cutlery'})\n"
    )
    (tmp_path / "drawer" / "cutlery.py").write_text("spoon = 'a spoon'\nfork = 'a fork'\n")
    monkeypatch.syspath_prepend(tmp_path)
    import drawer

    try:
        assert "drawer.cutlery" not in sys.modules
        assert drawer.spoon == "a spoon"
        assert "drawer.cutlery" in sys.modules
        with pytest.raises(AttributeError, match="module 'drawer' has no attribute 'fork'"):
            _ = drawer.fork
        with pytest.raises(ImportError, match="cannot import name 'knife'"):
            from drawer import knife  # noqa: F401
    finally:
        for name in ("drawer", "drawer.cutlery"):
            sys.modules.pop(name, None)


def test_the_function_alone():
    load = lazy_names("repri.runtime", {"Registry": ".registry"})
    assert load("Registry").__name__ == "Registry"
