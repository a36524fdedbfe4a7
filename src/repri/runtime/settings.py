"""One way from YAML or a mapping to a typed dataclass, which may nest other dataclasses by subject.

A settings class is a frozen dataclass. Each field has a docstring below it, which becomes the help of its flag
(``repri.cli.flags``). A field whose type is a dataclass is a *section*: a mapping in YAML. Where a section has a field
``name``, the name alone may stand for the section: ``data: pascal`` means ``data: {name: pascal}``.
"""

from __future__ import annotations

import ast
import difflib
import inspect
import linecache
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar, get_origin, get_type_hints

from .errors import RepriError
from .reading import adapter, parse_yaml, read_text, short
from .values import check_plain, describe, from_text, without_none

__all__ = [
    "as_mapping",
    "expand",
    "field_docs",
    "field_types",
    "nearest",
    "parse",
    "read_yaml",
]

T = TypeVar("T")


def read_yaml(path: Path) -> dict[str, Any]:
    """Read a YAML file that holds a mapping of settings.

    Args:
        path: The file.

    Returns:
        Its mapping.
    """
    values = parse_yaml(read_text(path, "REPRI_MAX_YAML_KB"), str(path))
    if not isinstance(values, dict):
        raise RepriError(f"{path} must hold a mapping of settings, but it holds a {type(values).__name__}")
    return values


def parse(kind: type[T], values: Mapping[str, Any], where: str, renamed: Mapping[str, str] | None = None) -> T:
    """Make an instance of a settings class, with every value checked against the type of its field.

    Args:
        kind: The settings class, a dataclass whose fields may be dataclasses.
        values: Names and values, nested as the class is.
        where: Where the values come from (a file, a command); messages begin with it.
        renamed: Former top-level names → present dotted names. A former name that is now a field of exactly one
            section needs no entry.

    Returns:
        The instance; fields that ``values`` leaves out have their defaults.

    Example:
        >>> from dataclasses import dataclass
        >>> @dataclass(frozen=True)
        ... class Optimiser:
        ...     rate: float = 0.1
        >>> parse(Optimiser, {"rate": 1}, "x.yaml")
        Optimiser(rate=1.0)
        >>> parse(Optimiser, {"rat": 1}, "x.yaml")
        Traceback (most recent call last):
        repri.runtime.errors.RepriError: x.yaml: unknown setting 'rat', did you mean 'rate'?
    """
    if not isinstance(values, Mapping):
        raise RepriError(f"{where}: expected a mapping of settings, got {short(values)}")
    values = expand(kind, values)
    _check_names(kind, values, where, renamed or {})
    return _build(kind, values, where, "")


def expand(kind: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """Write sections that are given by their name alone, or left empty, as mappings.

    Args:
        kind: The settings class.
        values: Names and values.

    Returns:
        The same values: ``data: pascal`` has become ``data: {name: pascal}``, and an empty section is ``{}``.
    """
    result = {str(name): value for name, value in values.items()}
    for name, section in field_types(kind).items():
        if name not in result or not is_dataclass(section) or isinstance(result[name], section):
            continue
        value = result[name]
        if isinstance(value, Mapping):
            result[name] = expand(section, value)
        elif "name" in field_types(section):
            result[name] = {"name": value}
        elif value is None:
            result[name] = {}
    return result


def field_types(kind: Any) -> dict[str, Any]:
    """Field name → type, with annotations that are text resolved."""
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(kind)}


def field_docs(kind: type) -> dict[str, str]:
    """Field name → docstring: the string literal below the field in the source of the class.

    The class must be defined at the top level of a module. Fields without a docstring are left out.
    """
    docs: dict[str, str] = {}
    for ancestor in reversed(kind.__mro__):
        source = inspect.getsourcefile(ancestor) if is_dataclass(ancestor) else None
        body = _class_bodies(source).get(ancestor.__qualname__, []) if source else []
        for before, after in pairwise(body):
            is_field = isinstance(before, ast.AnnAssign) and isinstance(before.target, ast.Name)
            if is_field and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
                docs[before.target.id] = " ".join(str(after.value.value).split())
    return docs


@cache
def _class_bodies(path: str) -> dict[str, list[ast.stmt]]:
    """Qualified name → statements of each class in a file."""
    tree = ast.parse("".join(linecache.getlines(path)))
    return {node.name: node.body for node in tree.body if isinstance(node, ast.ClassDef)}


def as_mapping(settings: Any) -> dict[str, Any]:
    """Nested plain values of a settings instance, to be saved: tuples become lists and paths become text.

    Args:
        settings: An instance of a settings class.

    Returns:
        A mapping that :func:`parse` turns into an equal instance.
    """
    return {field.name: _plain(getattr(settings, field.name)) for field in fields(settings)}


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return as_mapping(value)
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, Path) else value


def nearest(word: str, known: Sequence[str]) -> str:
    """``, did you mean 'x'?`` if a known word is close, else a full stop."""
    close = difflib.get_close_matches(word, known, n=1)
    return f", did you mean {close[0]!r}?" if close else "."


# Names


def _leaves(kind: type, path: str = "") -> Iterator[str]:
    """Dotted names of all settings that are no sections."""
    for name, section in field_types(kind).items():
        if is_dataclass(section):
            yield from _leaves(section, f"{path}{name}.")
        else:
            yield f"{path}{name}"


def _check_names(kind: type, values: Mapping[str, Any], where: str, renamed: Mapping[str, str]) -> None:
    """Raise an error for the first unknown name, which explains more than a wrong value does."""
    everything = list(_leaves(kind))

    def check(level: type, given: Mapping[str, Any], path: str) -> None:
        known = field_types(level)
        for name, value in given.items():
            if name not in known:
                raise RepriError(f"{where}: {unknown(name, path, list(known))}")
            if is_dataclass(known[name]) and isinstance(value, Mapping):
                check(known[name], value, f"{path}{name}.")

    def unknown(name: str, path: str, known: list[str]) -> str:
        same = [leaf for leaf in everything if leaf.rpartition(".")[2] == name]
        if not path and name in renamed:
            return f"{name!r} is now {renamed[name]!r}."
        if not path and len(same) == 1:
            return f"{name!r} is now {same[0]!r}."
        if same:
            return f"unknown setting {path + name!r}, did you mean {' or '.join(map(repr, same))}?"
        close = nearest(name, known)
        if close == ".":
            last = {leaf.rpartition(".")[2]: leaf for leaf in reversed(everything)}
            others = difflib.get_close_matches(name, list(last), n=1)
            close = f", did you mean {last[others[0]]!r}?" if others else f". Known: {', '.join(known)}."
        elif path:
            close = close.replace("'", f"'{path}", 1)
        return f"unknown setting {path + name!r}{close}"

    check(kind, values, "")


# Values


def _build(kind: Any, values: Mapping[str, Any], where: str, path: str) -> Any:
    """An instance of a class whose names have been checked."""
    checked: dict[str, Any] = {}
    types_of = field_types(kind)
    for field in fields(kind):
        name, wanted = f"{path}{field.name}", types_of[field.name]
        if field.name not in values:
            if field.default is MISSING and field.default_factory is MISSING:
                raise RepriError(f"{where}: the setting {name!r} is missing")
        elif is_dataclass(wanted):
            checked[field.name] = _section(wanted, values[field.name], where, name)
        else:
            checked[field.name] = _value(field, wanted, values[field.name], f"{where}: {name!r}")
    try:
        return kind(**checked)
    except ValueError as error:  # a rule of the class, which names what it is about
        section = f"{path.removesuffix('.')}: " if path else ""
        raise RepriError(f"{where}: {section}{error}") from None


def _section(kind: Any, value: Any, where: str, name: str) -> Any:
    if isinstance(value, kind):
        return value
    if not isinstance(value, Mapping):
        known = ", ".join(field_types(kind))
        raise RepriError(f"{where}: {name!r} is a section with the settings {known}, got {short(value)}")
    return _build(kind, value, where, f"{name}.")


def _value(field: Field[Any], wanted: Any, value: Any, where: str) -> Any:
    """A value of the type of its field. Lists may be spelled as on the command line: ``shots: 1,5``, ``layers: -1``."""
    from pydantic import ValidationError

    if value is not None and value == field.metadata.get("none"):
        return None
    inner = without_none(wanted)
    if get_origin(inner) is tuple and isinstance(value, (str, int, float)) and not isinstance(value, bool):
        try:
            return from_text(inner, str(value))
        except RepriError as error:
            raise RepriError(f"{where} {error}") from None
    try:
        check_plain(value)
    except RepriError as error:
        raise RepriError(f"{where} {error}") from None
    try:
        return adapter(wanted).validate_python(value)
    except ValidationError as error:
        problem = error.errors()[0]
        inside = ".".join(str(part) for part in problem["loc"] if str(part) in _places(value))
        detail = f" ({inside} does not fit)" if inside else ""
        raise RepriError(f"{where} must be {describe(wanted)}, got {short(value)}{detail}") from None


def _places(value: Any) -> set[str]:
    """Keys or indices of a mapping or list."""
    if isinstance(value, Mapping):
        return {str(key) for key in value}
    return {str(index) for index in range(len(value))} if isinstance(value, (list, tuple)) else set()
