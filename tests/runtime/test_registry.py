"""Named objects: registered, from other packages, missing."""

import pytest

from repri.runtime.errors import RepriError
from repri.runtime.registry import Registry


@pytest.fixture
def tools():
    registry = Registry[object]("tool", "repri.test_tools")
    registry.register("hammer", list, "for nails")
    return registry


def installed(folder, monkeypatch, points, module="tools_of_others", code="saw = ['saw']\n"):
    """Put a minimal installed package on the path."""
    (folder / f"{module}.py").write_text(code)
    info = folder / f"{module}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[repri.test_tools]\n" + points)
    monkeypatch.syspath_prepend(folder)


def test_names_in_order(tools):
    @tools.decorator("screwdriver")
    def turn():
        return "turned"

    assert list(tools) == ["hammer", "screwdriver"]
    assert tools["hammer"] is list
    assert tools["screwdriver"]() == turn() == "turned"
    assert (tools.about("hammer"), tools.about("screwdriver"), tools.about("saw")) == ("for nails", "", "")
    assert "hammer" in tools
    assert "saw" not in tools


def test_an_unknown_name_comes_with_the_nearest_and_all(tools):
    with pytest.raises(RepriError, match=r"^There is no tool named 'hamer', did you mean 'hammer'\? Known: hammer\.$"):
        tools["hamer"]
    with pytest.raises(RepriError, match=r"^There is no tool named 'x'\. Known: hammer\.$"):
        tools["x"]


def test_a_name_is_given_once_except_to_the_same_code(tools):
    def one():
        pass

    def other():
        pass

    tools.register("glue", one)
    tools.register("glue", other)  # a notebook cell that is run again
    assert tools["glue"] is other
    with pytest.raises(RepriError, match="There is already a tool named 'hammer': choose another name"):
        tools.register("hammer", one)


def test_entry_points_of_other_packages(tools, tmp_path, monkeypatch):
    installed(tmp_path, monkeypatch, "saw = tools_of_others:saw\n")
    assert list(tools) == ["hammer", "saw"]
    assert "saw" in tools
    assert tools["saw"] == ["saw"]
    assert tools["saw"] is tools["saw"]


def test_ours_come_before_those_of_others(tools, tmp_path, monkeypatch):
    installed(tmp_path, monkeypatch, "hammer = tools_of_others:saw\n")
    assert tools["hammer"] is list
    assert list(tools) == ["hammer"]
