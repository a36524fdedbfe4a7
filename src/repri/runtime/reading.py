"""The one door for text, JSON and YAML that others wrote: only regular files, of bounded size and depth, checked by a
type.

Whatever is wrong with a file becomes a :class:`RepriError` here, so that the code behind the door may trust what it
gets.
"""

from __future__ import annotations

import json
import reprlib
import stat
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from .errors import RepriError
from .limits import check_cost

if TYPE_CHECKING:
    from pydantic import ValidationError

__all__ = ["check_regular", "parse_json", "parse_yaml", "problem_of", "read_json", "read_text", "short", "validated"]

T = TypeVar("T")
DEPTH = 64
"""Levels that a file may nest; ours and those of known tools have at most ten."""
YAML_VALUES = 100_000
"""Values that a YAML file may have after its aliases are expanded."""


def check_regular(path: Path) -> None:
    """Raise an error unless a path is a regular file or a link to one: a pipe would block, a device never ends.

    Args:
        path: The file.
    """
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError) as error:
        raise RepriError(f"cannot read {path}: {_reason(error)}") from None
    if stat.S_ISDIR(mode):
        raise RepriError(f"{path} is a folder, not a file")
    if not stat.S_ISREG(mode):
        raise RepriError(f"{path} is not a regular file but a pipe, a socket or a device: it is not read")


def read_text(path: Path, limit: str = "REPRI_MAX_TEXT_MB") -> str:
    """Read a text file in UTF-8, with or without a byte-order mark.

    Args:
        path: The file.
        limit: The limit of its size, in MB or KB.

    Returns:
        The text.
    """
    check_regular(path)
    try:
        check_cost(limit, path.stat().st_size / (1e3 if limit.endswith("KB") else 1e6), str(path))
        return path.read_bytes().decode("utf-8-sig")
    except (OSError, MemoryError) as error:
        raise RepriError(f"cannot read {path}: {_reason(error)}") from None
    except UnicodeDecodeError:
        raise RepriError(f"{path} is not a text file in UTF-8: save it as one") from None


def read_json(path: Path) -> Any:
    """Read a JSON file.

    Args:
        path: The file.

    Returns:
        Its content, which nests at most :data:`DEPTH` levels.
    """
    check_regular(path)
    try:
        check_cost("REPRI_MAX_JSON_GB", 2 * path.stat().st_size / 1e9, str(path))
        content = path.read_bytes()
    except (OSError, MemoryError) as error:
        raise RepriError(f"cannot read {path}: {_reason(error)}") from None
    return parse_json(content, str(path))


def parse_json(content: str | bytes, where: str) -> Any:
    """Parse JSON.

    Args:
        content: The text, or its bytes in UTF-8.
        where: Where it comes from; messages begin with it.

    Returns:
        The values, which nest at most :data:`DEPTH` levels.

    Example:
        >>> parse_json("[1, 2", "x.json")
        Traceback (most recent call last):
        repri.runtime.errors.RepriError: x.json is not JSON (Expecting ',' delimiter: line 1 column 6 (char 5))
    """
    raw = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
    values, containers = raw.count(b","), raw.count(b"[") + raw.count(b"{")
    check_cost("REPRI_MAX_JSON_GB", (2 * len(raw) + 40 * values + 80 * containers) / 1e9, where)
    try:
        parsed = json.loads(raw.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise RepriError(f"{where} is not JSON (it is not text in UTF-8)") from None
    except json.JSONDecodeError as error:
        raise RepriError(f"{where} is {'empty' if not raw.strip() else f'not JSON ({error})'}") from None
    except RecursionError:
        raise _too_deep(where) from None
    except ValueError:  # the only other one
        raise RepriError(f"{where} is not JSON that can be used: a number in it has thousands of digits") from None
    except MemoryError as error:
        raise RepriError(f"{where} is not JSON that can be used ({_reason(error)})") from None
    level = [parsed]
    for _ in range(DEPTH + 1):
        level = [item for one in level for item in _inside(one) if isinstance(item, (dict, list))]
        if not level:
            return parsed
    raise _too_deep(where)


def _inside(value: Any) -> Iterator[Any]:
    return iter(value.values() if isinstance(value, dict) else value if isinstance(value, list) else ())


def _too_deep(where: str) -> RepriError:
    return RepriError(f"{where} nests more than {DEPTH} levels: no file that is known here does")


def parse_yaml(text: str, where: str) -> Any:
    """Parse YAML.

    Args:
        text: The text.
        where: Where it comes from; messages begin with it.

    Returns:
        The values. Aliases are expanded, to at most :data:`YAML_VALUES` values.

    Example:
        >>> parse_yaml("rate: 0.1", "x.yaml")
        {'rate': 0.1}
        >>> parse_yaml("&a [*a]", "x.yaml")
        Traceback (most recent call last):
        repri.runtime.errors.RepriError: x.yaml is not YAML that can be used: it contains itself by the alias 'a'
    """
    import yaml  # slow to import, and not needed for the flags of a command

    check_cost("REPRI_MAX_YAML_KB", len(text) / 1e3, where)
    try:
        _check_events(yaml.parse(text, yaml.SafeLoader), where)
        return yaml.safe_load(text)
    except RepriError:
        raise
    except yaml.YAMLError as error:
        raise RepriError(f"{where} is not YAML: {' '.join(str(error).split())}") from None
    except (ValueError, TypeError, OverflowError, RecursionError, MemoryError) as error:  # such as: a 13th month
        raise RepriError(f"{where} is not YAML that can be used: {_reason(error)}") from None


def _check_events(events: Iterator[Any], where: str) -> None:
    """Walk through the events of a YAML text: how deep it nests, and how many values its aliases stand for."""
    import yaml

    open_: list[tuple[str | None, int]] = []  # anchor and values before, of each collection around
    sizes: dict[str, int] = {}
    count = 0
    for event in events:
        if isinstance(event, yaml.CollectionStartEvent):
            open_.append((event.anchor, count))
            count += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = open_.pop()
            if anchor:
                sizes[anchor] = count - before
        elif isinstance(event, yaml.AliasEvent):
            if any(anchor == event.anchor for anchor, _ in open_):
                raise RepriError(
                    f"{where} is not YAML that can be used: it contains itself by the alias {event.anchor!r}"
                )
            count += sizes.get(event.anchor, 1)
        elif isinstance(event, yaml.ScalarEvent):
            count += 1
        if len(open_) > DEPTH:
            raise _too_deep(where)
        if count > YAML_VALUES:
            raise RepriError(f"{where} holds more than {YAML_VALUES:,} values, counting those of its aliases")


def validated(kind: Any, value: Any, where: str) -> Any:
    """Check a value against a type.

    Args:
        kind: The type: a pydantic model, a TypedDict, or any type that pydantic knows.
        value: Plain values, as JSON or YAML have them.
        where: Where they come from; messages begin with it.

    Returns:
        The value as the type has it.

    Example:
        >>> validated(dict[str, int], {"a": "x"}, "x.json")
        Traceback (most recent call last):
        repri.runtime.errors.RepriError: x.json: a should be a valid integer, got 'x'
    """
    from pydantic import ValidationError

    try:
        return adapter(kind).validate_python(value)
    except ValidationError as error:
        raise RepriError(f"{where}: {problem_of(error)}") from None


def problem_of(error: ValidationError) -> str:
    """The first problem of a validation, as part of a sentence: the place, what it should be, and what it is."""
    first = error.errors(include_url=False)[0]
    place = ".".join(str(part) for part in first["loc"] if "[" not in str(part)) or "the content"
    if first["type"] == "missing":
        return f"there is no {place!r}"
    message = first["msg"].split(", unable to")[0].removeprefix("Value error, ").removeprefix("Input ")
    return f"{place} {message[:1].lower() + message[1:]}, got {short(first['input'])}"


def short(value: Any) -> str:
    """A value as a message shows it: a large one is cut.

    Example:
        >>> short(list(range(100)))
        '[0, 1, 2, 3, 4, 5, 6, 7, ...]'
    """
    text = _SHORT.repr(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} …"


LONGEST = 300
"""Characters of a value in a message."""
_SHORT = reprlib.Repr()
_SHORT.maxlevel, _SHORT.maxlist, _SHORT.maxtuple, _SHORT.maxdict = 3, 8, 8, 8
_SHORT.maxstring, _SHORT.maxlong, _SHORT.maxother = 100, 40, 100


@cache
def adapter(kind: Any) -> Any:
    """The pydantic adapter of a type; numbers must be finite."""
    from pydantic import ConfigDict, TypeAdapter
    from pydantic.errors import PydanticUserError

    try:
        return TypeAdapter(kind, config=ConfigDict(allow_inf_nan=False))
    except PydanticUserError:  # a model has a configuration of its own
        return TypeAdapter(kind)


def _reason(error: BaseException) -> str:
    if isinstance(error, RecursionError):
        return "it nests too deeply"
    if isinstance(error, MemoryError):
        return "it does not fit into the memory"
    return getattr(error, "strerror", None) or str(error)
