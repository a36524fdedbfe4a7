"""Strategies of hypothesis that damage valid documents and files."""

import copy
import math
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

__all__ = ["PIECES", "damaged", "mutated"]

NUMBERS = [math.nan, math.inf, -math.inf, 1e308, -1e8, 1e8, -1, 0, 1, 0.5, 2**31, 2**63, 10**30, 10**400, True]
TEXTS = [
    "",
    " ",
    "x",
    "\x00",
    "a\nb",
    "\u2028",
    "\ud800",
    "../../etc/passwd",
    "/dev/zero",
    "x" * 5000,
    "=1+1",
    "nan",
    "1e999",
]
JUNK = [*NUMBERS, *TEXTS, None, [], {}, [[]], [None], {"a": 1}, {"": []}, [[1, 2], [3]], [math.nan] * 8]

PIECES = [
    b"",
    b"\x00",
    b"\xff\xfe",
    b"\n",
    b":",
    b"[",
    b"&a *a",
    b"{" * 200,
    b"-9" * 9,
    b"\xe2\x80\xa8",
    b'"',
    b"NaN",
    b"<a>",
]


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Paths of all values inside a value."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, item in inside for place in _places(item, (*path, key)))]


@st.composite
def mutated(draw: Callable[[Any], Any], documents: list[Any]) -> Any:
    """One of some valid documents, with one to three changes."""
    document = copy.deepcopy(draw(st.sampled_from(documents)))
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from(_places(document)))
        junk = copy.deepcopy(draw(st.sampled_from(JUNK)))
        if not path:
            return junk if draw(st.booleans()) else [document]
        parent = document
        for key in path[:-1]:
            parent = parent[key]
        change = draw(st.sampled_from(["replace", "replace", "remove", "add", "deepen"]))
        if change == "replace":
            parent[path[-1]] = junk
        elif change == "remove":
            del parent[path[-1]]
        elif change == "deepen":
            parent[path[-1]] = [parent[path[-1]]]
        elif isinstance(parent, dict):
            parent[str(draw(st.sampled_from(TEXTS)))] = junk
        else:
            parent.append(junk)
    return document


@st.composite
def damaged(draw: Callable[[Any], Any], contents: list[bytes]) -> bytes:
    """One of some valid files, with bytes changed, left out or added."""
    content = bytearray(draw(st.sampled_from(contents)))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(content)))
        end = min(len(content), at + draw(st.integers(0, 20)))
        content[at:end] = draw(st.sampled_from(PIECES))
    return bytes(content)
