"""Types in words, and texts as values."""

from pathlib import Path
from typing import Literal

import pytest

from repri.runtime.errors import RepriError
from repri.runtime.values import describe, from_text, without_none


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (str, "5", "5"),
        (int, "-5", -5),
        (float, "1e-3", 1e-3),
        (bool, "no", False),
        (Path, "a/b", Path("a/b")),
        (str | int, "5", 5),
        (str | None, "none", None),
        (Literal["a", 2], "2", 2),
        (tuple[int, ...] | None, "null", None),
        (tuple[int, ...], "1, 5,10", (1, 5, 10)),
        (tuple[str, ...], "", ()),
        (tuple[float, float], "0.5,2", (0.5, 2.0)),
    ],
)
def test_texts_become_values(kind, text, value):
    result = from_text(kind, text)
    assert (result, type(result)) == (value, type(value))


@pytest.mark.parametrize(
    ("kind", "text", "sentence"),
    [
        (int, "many", "must be a whole number, got 'many'"),
        (bool, "maybe", "must be true or false, got 'maybe'"),
        (Literal["a", "b"], "c", "must be a or b, got 'c'"),
        (int | float, "x", "must be a whole number or a number, got 'x'"),
        (tuple[float, float], "1", r"must be 2 values \(numbers\), got '1'"),
        (int, "none", "must be a whole number, got 'none'"),
    ],
)
def test_texts_that_do_not_fit(kind, text, sentence):
    with pytest.raises(RepriError, match=sentence):
        from_text(kind, text)


def test_types_in_words():
    assert describe(Path | None) == "a path or null"
    assert describe(dict[str, int] | list[str]) == "a mapping or a list (names)"
    assert without_none(int) is int
    assert without_none(int | None) is int
