"""Inside ``data``: io knows nothing of data sets, and data sets know nothing of fetching and of tasks."""

import ast
import importlib.util
from pathlib import Path

import pytest

import repri.data

DATA = Path(repri.data.__file__).parent
ALLOWED = {
    "io": {"io"},
    "datasets": {"io", "datasets"},
    "fetch": {"io", "datasets", "fetch"},
    "tasks": {"io", "datasets", "tasks"},
}
"""Folder → folders of ``data`` that it may import."""
FILES = sorted(path for folder in ALLOWED for path in (DATA / folder).rglob("*.py"))


def folders_imported(path):
    """The folders of ``data`` that a file imports, relative imports resolved."""
    package = ".".join(("repri", "data", *path.relative_to(DATA).parent.parts))
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(importlib.util.resolve_name("." * node.level + (node.module or ""), package))
    return {name.split(".")[2] for name in names if name.startswith("repri.data.")}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(DATA)))
def test_imports_point_one_way(path):
    folder = path.relative_to(DATA).parts[0]
    assert folders_imported(path) <= ALLOWED[folder]


def test_the_check_sees_imports():
    """The check above must be able to fail."""
    assert folders_imported(DATA / "fetch" / "pascal.py") == {"io", "datasets", "fetch"}
    assert folders_imported(DATA / "io" / "formats" / "voc.py") == {"io"}


@pytest.mark.parametrize("package", ["", "io", "datasets", "fetch", "tasks", "io/formats"])
def test_every_public_name_is_there(package):
    module = importlib.import_module(".".join(filter(None, ("repri.data", *package.split("/")))))
    assert all(getattr(module, name) is not None for name in module.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = module.nothing
