"""One way from YAML or a mapping to a typed dataclass: unknown keys and wrong values are named."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

import yaml

__all__ = ["nearest", "parse", "read_yaml"]

T = TypeVar("T")
UNKNOWN = "unexpected_keyword_argument"
"""pydantic's word for a key that the dataclass does not have."""


def read_yaml(path: Path) -> dict[str, Any]:
    """The mapping in a YAML file."""
    try:
        values = yaml.safe_load(path.read_text())
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(values, dict):
        raise ValueError(f"{path} must hold a mapping of settings, found {type(values).__name__}")
    return values


def parse(kind: type[T], values: Mapping[str, Any], where: str) -> T:
    """``values`` as an instance of the dataclass ``kind``; ``where`` (a file, say) begins what is said of mistakes.

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Optimiser:
    ...     rate: float = 0.1
    >>> parse(Optimiser, {"rate": 1}, "x.yaml")
    Optimiser(rate=1.0)
    >>> parse(Optimiser, {"rat": 1}, "x.yaml")
    Traceback (most recent call last):
    ValueError: x.yaml: unknown setting 'rat', did you mean 'rate'?
    """
    from pydantic import ConfigDict, TypeAdapter, ValidationError
    from pydantic.dataclasses import dataclass

    try:
        frozen = getattr(kind, "__dataclass_params__").frozen  # noqa: B009
        checked: Any = dataclass(kind, frozen=frozen, config=ConfigDict(extra="forbid"))
        result = TypeAdapter(checked).validate_python(dict(values))
    except ValidationError as error:
        problems = sorted(
            error.errors(), key=lambda problem: problem["type"] != UNKNOWN
        )  # a misspelt one explains more
        raise ValueError(f"{where}: {_explain(kind, problems[0])}") from None
    return kind(**vars(result))


def _explain(kind: Any, problem: Any) -> str:
    path = [str(part) for part in problem["loc"]]
    if problem["type"] == UNKNOWN:
        known = [name.name for name in fields(kind)]
        close = nearest(path[-1], known)
        return f"unknown setting {path[-1]!r}{close}" + (f" Known: {', '.join(known)}" if close == "." else "")
    text = problem["msg"].removeprefix("Value error, ")
    outer = next((field for field in fields(kind) if path and field.name == path[0]), None)
    if outer is not None and len(path) > 1:  # somewhere inside: say what the whole should be
        wanted = str(outer.type).replace("Literal", "one of ")
        return f"{path[0]}: expected {wanted}, and {'.'.join(path[1:])} does not fit ({text[0].lower()}{text[1:]})"
    if problem["type"] == "missing":
        return f"the setting {'.'.join(path)!r} is missing"
    if not path:  # a rule of the whole, which names what it is about
        return text
    return f"{'.'.join(path)}: {text[0].lower()}{text[1:]}, got {problem['input']!r}"


def nearest(word: str, known: list[str] | tuple[str, ...]) -> str:
    """``, did you mean 'x'?`` or a full stop."""
    close = difflib.get_close_matches(word, known, n=1)
    return f", did you mean {close[0]!r}?" if close else "."
