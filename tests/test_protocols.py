"""The three protocols, as data."""

import re
from dataclasses import FrozenInstanceError, fields, replace
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

from repri.features.extractor import PRECISIONS
from repri.inference.config import PRESETS
from repri.protocols import PROTOCOLS, Protocol, get_protocol
from repri.refine import REFINERS
from repri.runtime.errors import RepriError

SOURCE = Path(__file__).parents[1] / "src" / "repri"


@pytest.mark.parametrize("name", ["clean", "paper", "official"])
def test_every_field_holds_a_value_that_is_known(name):
    protocol, hints = get_protocol(name), get_type_hints(Protocol)
    for field in fields(protocol):
        allowed = get_args(hints[field.name])
        if allowed and all(isinstance(value, str) for value in allowed):
            assert getattr(protocol, field.name) in allowed
    assert protocol.name == name
    assert protocol.preset is None or protocol.preset in PRESETS
    assert protocol.refine in REFINERS
    assert protocol.precision in PRECISIONS


def test_what_tells_them_apart():
    clean, paper, official = (get_protocol(name) for name in ("clean", "paper", "official"))
    assert [p.resize for p in (clean, paper, official)] == ["aspect", "square", "letterbox"]
    assert [p.query_cells for p in (clean, paper, official)] == ["content", "all", "labelled"]
    assert [p.scored_at for p in (clean, paper, official)] == ["original", "network", "network"]
    assert [p.selection for p in (clean, paper, official)] == ["base", "last", "novel"]
    habits = ("first_polygon_only", "swaps_cat_and_car", "void_is_background", "vertical_flip", "nesterov")
    assert all(getattr(official, habit) for habit in habits)
    assert not any(getattr(p, habit) for p in (clean, paper) for habit in habits)


def test_a_protocol_is_immutable_and_passes_through():
    clean = get_protocol("clean")
    assert get_protocol(clean) is clean
    with pytest.raises(FrozenInstanceError):
        clean.resize = "square"


def test_an_unknown_name():
    with pytest.raises(RepriError, match="There is no protocol named 'offical', did you mean 'official'"):
        get_protocol("offical")
    assert list(PROTOCOLS)[:3] == ["clean", "paper", "official"]


def test_others_can_be_added(monkeypatch):
    monkeypatch.setattr(PROTOCOLS, "_objects", dict(PROTOCOLS._objects))
    strict = replace(get_protocol("clean"), name="strict", refine="none")
    PROTOCOLS.register("strict", strict)
    assert get_protocol("strict") is strict
    with pytest.raises(RepriError, match="There is no protocol named 'strickt', did you mean 'strict'"):
        get_protocol("strickt")


def test_nobody_compares_names_of_protocols():
    """Code asks the fields."""
    pattern = re.compile(r"""protocol(\.name)?\s*(==|!=|in)\s*\(?["']""")
    for path in SOURCE.rglob("*.py"):
        found = pattern.search(path.read_text())
        assert found is None, f"{path}: {found.group() if found else ''}"
