"""Values of settings and their types: what a type is called in a message, and what a text on the command line means."""

from __future__ import annotations

import math
import types
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from .errors import RepriError

__all__ = ["check_plain", "describe", "from_text", "without_none"]

MOST = 2**31 - 1
"""Largest whole number of a setting."""
NONE = ("none", "null")
"""Words on the command line that mean None."""
TRUTH = {"true": True, "yes": True, "false": False, "no": False}


def without_none(kind: Any) -> Any:
    """``X`` for the type ``X | None``; any other type as it is."""
    if not _is_union(kind):
        return kind
    parts = [part for part in get_args(kind) if part is not types.NoneType]
    return Union[tuple(parts)]  # noqa: UP007 (made from values)


def _is_union(kind: Any) -> bool:
    return get_origin(kind) in (Union, types.UnionType)


def check_plain(value: Any) -> None:
    """Raise an error for a value that no setting may have: a number that no counter holds, or a null character.

    Args:
        value: The value of a setting.

    Example:
        >>> check_plain(10**30)
        Traceback (most recent call last):
        repri.runtime.errors.RepriError: must lie between -2147483648 and 2147483647, got 1e+30
    """
    if isinstance(value, int) and not -MOST - 1 <= value <= MOST:
        shown = f"{value:.3g}" if abs(value) < 10**300 else "more than 300 digits"
        raise RepriError(f"must lie between {-MOST - 1} and {MOST}, got {shown}")
    if isinstance(value, str) and "\0" in value:
        raise RepriError("must not hold a null character, which no file name has")
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ():
        check_plain(item)


def describe(kind: Any) -> str:
    """A description of the values of a type, in words.

    Example:
        >>> describe(int | None)
        'a whole number or null'
        >>> describe(tuple[str | int, ...])
        'a list (names or whole numbers)'
    """
    words = {str: "text", int: "a whole number", float: "a number", bool: "true or false", Path: "a path"}
    plural = {str: "names", int: "whole numbers", float: "numbers"}
    if kind in words:
        return words[kind]
    if kind is types.NoneType:
        return "null"
    if get_origin(kind) is Literal:
        return " or ".join(str(choice) for choice in get_args(kind))
    if _is_union(kind):
        return " or ".join(describe(part) for part in get_args(kind))
    if get_origin(kind) in (tuple, list):
        parts = [part for part in get_args(kind) if part is not Ellipsis]
        flat = [one for part in parts for one in (get_args(part) if _is_union(part) else (part,))]
        inner = " or ".join(dict.fromkeys(plural.get(one, describe(one)) for one in flat))
        count = f"{len(parts)} values" if get_origin(kind) is tuple and Ellipsis not in get_args(kind) else "a list"
        return f"{count} ({inner})"
    return "a mapping" if get_origin(kind) is dict or kind is dict else str(kind)


def from_text(kind: Any, text: str, none: str | None = None) -> Any:
    """The value that a text on the command line stands for; tuples are separated by commas.

    Args:
        kind: Type of the value.
        text: The text.
        none: A word that means None besides ``none`` and ``null``, if None is allowed.

    Returns:
        The value. A text that does not fit raises an error that begins with "must be".

    Example:
        >>> from_text(tuple[str | int, ...], "layer3,-1"), from_text(int | None, "none")
        (('layer3', -1), None)
    """
    wanted = without_none(kind)
    if wanted is not kind and (text in NONE or text == none):
        return None
    try:
        return _converted(wanted, text)
    except RepriError:
        raise
    except ValueError:
        raise RepriError(f"must be {describe(kind).replace('null', 'none')}, got {text!r}") from None


def _converted(kind: Any, text: str) -> Any:
    """A value of a type that is not optional; ValueError if the text does not fit."""
    if get_origin(kind) is tuple:
        parts, wanted = [part.strip() for part in text.split(",")] if text.strip() else [], get_args(kind)
        each = [wanted[0]] * len(parts) if Ellipsis in wanted else wanted
        return tuple(_converted(one, part) for one, part in zip(each, parts, strict=True))
    if _is_union(kind):
        for one in sorted(get_args(kind), key=lambda one: one is str):  # text, which fits everything, is last
            try:
                return _converted(one, text)
            except RepriError:
                raise
            except ValueError:
                continue
        raise ValueError(text)
    choices = {str(choice): choice for choice in get_args(kind)} if get_origin(kind) is Literal else None
    choices = TRUTH if kind is bool else choices
    if choices is None:
        value = kind(text)
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(text)
        check_plain(value)
        return value
    if text not in choices:
        raise ValueError(text)
    return choices[text]
