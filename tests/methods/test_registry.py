"""Methods by name: ours, those of user code, those of other packages."""

import sys

import pytest
import torch

from repri.methods import METHODS, Method, Prediction, build_method, register_method
from repri.runtime.errors import RepriError

from .make import make_episode

PACKAGE = '''
import torch
from repri.methods import Method, Prediction


class Centre(Method):
    """Everything near the middle is the object."""

    name = "centre"

    def __init__(self, radius: float = 0.3):
        self.radius = radius

    def predict(self, episode):
        height, width = episode.query.shape[-2:]
        rows, columns = torch.linspace(-1, 1, height), torch.linspace(-1, 1, width)
        return Prediction(self.radius - torch.hypot(rows[:, None], columns))
'''


@pytest.fixture(autouse=True)
def _own_registry(monkeypatch):
    """What a test registers is forgotten after it."""
    monkeypatch.setattr(METHODS, "_objects", dict(METHODS._objects))


def test_a_class_becomes_a_method():
    @register_method("flat", "one value everywhere")
    class Flat(Method):
        name = "flat"

        def __init__(self, preset: str = "clean", level: float = -1.0):
            self.preset, self.level = preset, level

        def predict(self, episode):
            return Prediction(torch.full(episode.query.shape[-2:], self.level))

        def settings(self):
            return {"level": self.level}

    method = build_method("flat", "official", {"level": 2.0})
    assert (method.preset, method.settings()) == ("official", {"level": 2.0})
    assert (method.predict(make_episode()[0]).logits == 2).all()
    assert METHODS.about("flat") == "one value everywhere"
    with pytest.raises(RepriError, match=r"The method 'flat' has no setting 'levl'\. Known: level"):
        build_method("flat", settings={"levl": 2.0})


def test_a_name_that_is_taken_is_refused():
    with pytest.raises(RepriError, match="There is already a method named 'repri': choose another name"):
        register_method("repri")(lambda: None)


def test_methods_of_other_packages_are_known_by_their_entry_points(tmp_path, monkeypatch):
    (tmp_path / "theirs.py").write_text(PACKAGE)
    info = tmp_path / "theirs-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[repri.methods]\ncentre = theirs:Centre\n")
    assert "centre" not in METHODS
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "theirs", raising=False)
    assert "centre" in METHODS
    assert "theirs" not in sys.modules  # it is imported when it is first used
    logits = build_method("centre", settings={"radius": 0.5}).predict(make_episode()[0]).logits
    assert logits[3, 4] > 0 > logits[0, 0]
    monkeypatch.delitem(sys.modules, "theirs")


def test_settings_and_mistakes():
    method = build_method("repri-oracle", "paper", {"delta": 0.3, "steps": 7})
    assert method.settings()["delta"] == 0.3
    assert method.settings()["steps"] == 7
    assert method.oracle
    for name, settings, message in (
        ("repry", {}, "There is no method named 'repry', did you mean 'repri'"),
        ("repri", {"stepps": 3}, "There is no inference setting named 'stepps', did you mean 'steps'"),
        ("prototype", {"steps": 3}, "The method 'prototype' has no setting 'steps'. Known: temperature"),
        ("ce", {"delta": 0.3}, "delta perturbs the proportion that an oracle is told, and ce is told none"),
        ("repri-oracle", {"delta": "much"}, "delta must be a finite number, got 'much'"),
        ("repri-oracle", {"delta": -(10**400)}, "delta must be a finite number, got -1000"),
        ("prototype", {"temperature": 10**400}, "temperature must be a finite number above 0, got 1000"),
        ("repri-oracle", {"delta": float("nan")}, "delta must be a finite number, got nan"),
        ("prototype", {"temperature": True}, "temperature must be a finite number above 0, got True"),
        ("forest", {"trees": 0}, "trees must be an integer of at least 1, got 0"),
        ("forest", {"depth": 2.5}, "depth must be an integer of at least 1, got 2.5"),
        ("repri", {"needs_proportion": True}, "needs_proportion is what makes an oracle: use the method repri-oracle"),
    ):
        with pytest.raises(RepriError, match=message):
            build_method(name, "clean", settings)
    with pytest.raises(RepriError, match="There is no preset named 'clear', did you mean 'clean'"):
        build_method("repri", "clear")


@pytest.mark.parametrize("name", [None, 3, ["repri"]])
def test_a_method_has_a_name(name):
    with pytest.raises(RepriError, match="A method is a name or the file of a trained one, got"):
        build_method(name)
