"""Who may import whom, read from the imports."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "repri"
ALLOWED = {
    "runtime": set(),
    "inference": set(),
    "protocols": set(),
    "refine": {"regions"},
    "regions": {"models", "features"},
    "features": {"inference", "data"},
    "data": {"protocols"},
    "models": {"features", "data"},
    "methods": {"inference", "features"},
    "training": {"models", "methods", "features", "inference", "data", "protocols"},
    "evaluation": {"models", "methods", "features", "inference", "data", "protocols", "refine", "regions"},
    "segmenter": {"models", "methods", "features", "inference", "data", "protocols", "refine", "regions"},
    "experiments": {
        "evaluation",
        "segmenter",
        "models",
        "methods",
        "features",
        "inference",
        "data",
        "protocols",
        "refine",
        "regions",
    },
    "web": {
        "segmenter",
        "features",
        "inference",
        "data",
        "models",
        "refine",
        "regions",
        "protocols",
        "methods",
        "experiments",
    },
}
"""Folder → folders that it may import, besides ``runtime``, which everybody may."""
EVERYTHING = {"cli", "__main__", "__init__"}


def rooms_imported(path: Path) -> set[str]:
    """First-level parts of repri that a file imports, relative imports resolved."""
    package = ("repri", *path.relative_to(SOURCE).parent.parts)
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = list(package[: len(package) - node.level + 1]) if node.level else []
            base += node.module.split(".") if node.module else []
            names = [".".join([*base, alias.name]) for alias in node.names]
        found |= {name.split(".")[1] for name in names if name.startswith("repri.")}
    return found - {"__version__"}  # which anybody may say


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda p: str(p.relative_to(SOURCE)))
def test_dependencies_point_one_way(path):
    parts = path.relative_to(SOURCE).parts
    room = parts[0].removesuffix(".py")
    if room in EVERYTHING:
        return
    assert room in ALLOWED, f"{room} has no place in the house yet: add it to ALLOWED"
    extra = rooms_imported(path) - {room, "runtime"} - ALLOWED[room]
    assert not extra, f"{path} imports {sorted(extra)}"


def test_the_check_sees_imports():
    """The check above must be able to fail."""
    assert rooms_imported(SOURCE / "experiments" / "demo.py") >= {"data", "runtime", "segmenter", "methods"}
    assert rooms_imported(SOURCE / "inference" / "solver.py") == {"inference", "runtime"}


def test_pickles_are_never_trusted():
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "torch.load":
                trusted = [ast.unparse(k.value) for k in node.keywords if k.arg == "weights_only"]
                assert trusted == ["True"], path
