"""Command-line flags that are generated from a settings class.

A field's flag is its own name with hyphens (``epochs`` → ``--epochs``); the field ``name`` of a section has the name of
its section (``data.name`` → ``--data``). Where two sections have a field of the same name, the section comes first
(``--teacher-size``). ``field(metadata={"flag": "size"})`` gives a field another flag, and ``metadata={"none": "all"}``
another word for None. The help of a flag is the docstring of its field and its default.

A flag that is not given leaves the value of the YAML file, or the default, as it is.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import typer

from repri.runtime.errors import RepriError
from repri.runtime.settings import expand, field_docs, field_types, parse, read_yaml
from repri.runtime.values import from_text, without_none

__all__ = ["Flag", "flags_of", "resolve", "settings_command"]

T = TypeVar("T")


@dataclass(frozen=True)
class Flag:
    """A flag of the command line that sets one field of a settings class."""

    name: str
    """Name without the leading hyphens: ``teacher-size``."""
    path: tuple[str, ...]
    """Names of the sections and of the field: ``("teacher", "size")``."""
    kind: Any
    """Type of the field."""
    help: str
    """Docstring of the field, and its default."""
    none: str | None = None
    """Word that means None, besides ``none`` and ``null``."""

    def value(self, text: str | bool) -> Any:
        """The value that was given on the command line."""
        if isinstance(text, bool):
            return text
        try:
            return from_text(self.kind, text, self.none)
        except RepriError as error:
            raise RepriError(f"--{self.name} {error}") from None

    def parameter(self) -> inspect.Parameter:
        """The parameter from which typer makes the option."""
        inner = without_none(self.kind)
        if inner is bool:
            option: Any = Annotated[bool | None, typer.Option(f"--{self.name}/--no-{self.name}", help=self.help)]
        else:
            shown = typer.Option(f"--{self.name}", help=self.help, metavar=_metavar(inner))
            option = Annotated[str | None, shown]
        name = self.name.replace("-", "_")
        return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=option)


def flags_of(kind: type, taken: Collection[str] = ()) -> list[Flag]:
    """The flags of a settings class, one for each field that is neither a section nor a mapping.

    Args:
        kind: The settings class.
        taken: Names of flags that the command has already; a field of a section gives way to them.

    Returns:
        The flags in the order of the fields.
    """
    leaves = list(_leaves(kind))
    wanted = {path: field.metadata.get("flag") or _short(path) for path, field, _, _ in leaves}
    count = Counter([*wanted.values(), *taken])
    for path, field, _, _ in leaves:
        fixed = len(path) == 1 or path[-1] == "name" or "flag" in field.metadata
        if count[wanted[path]] > 1 and not fixed:
            wanted[path] = "-".join(path[-2:]).replace("_", "-")
    twice = [name for name, times in Counter([*wanted.values(), *taken]).items() if times > 1]
    assert not twice, f"two settings of {kind.__name__} have the flag --{twice[0]}: name one with metadata"
    return [
        Flag(wanted[path], path, wants, _help(field, doc), field.metadata.get("none"))
        for path, field, wants, doc in leaves
    ]


def settings_command(kind: type) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator that gives a command one flag for each setting, and ``--config FILE.yaml``.

    The decorated function is called with the file or None, and with a nested mapping of the settings that were given as
    flags; its other parameters are options or arguments of the command, as typer reads them. :func:`resolve` makes the
    settings of both::

        @settings_command(TrainSettings)
        def train(config: Path | None, given: dict[str, Any], resume: Annotated[bool, typer.Option(…)] = False) -> None:
            settings = resolve(TrainSettings, config, given, "repri train")

    Args:
        kind: The settings class.

    Returns:
        The decorator.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        hints = get_type_hints(function, include_extras=True)
        own = [
            parameter.replace(annotation=hints[name], kind=inspect.Parameter.KEYWORD_ONLY)
            for name, parameter in list(inspect.signature(function).parameters.items())[2:]
        ]
        flags = flags_of(kind, ["config", *(parameter.name.replace("_", "-") for parameter in own)])
        by_name = {flag.name.replace("-", "_"): flag for flag in flags}

        def command(**arguments: Any) -> Any:
            given: dict[str, Any] = {}
            for name, flag in by_name.items():
                if (text := arguments.pop(name)) is not None:
                    _put(given, flag.path, flag.value(text))
            return function(arguments.pop("config"), given, **arguments)

        file = Annotated[Path | None, typer.Option("--config", help="YAML file with settings; flags override it.")]
        config = inspect.Parameter("config", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=file)
        parameters = [config, *(flag.parameter() for flag in flags), *own]
        command.__name__, command.__doc__ = getattr(function, "__name__", ""), function.__doc__
        command.__module__ = function.__module__
        command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        setattr(command, "__signature__", inspect.Signature(parameters))  # noqa: B010
        return command

    return decorate


def resolve(
    kind: type[T],
    config: Path | None,
    given: Mapping[str, Any],
    where: str,
    renamed: Mapping[str, str] | None = None,
) -> T:
    """The settings of a YAML file and of flags, which override it.

    Args:
        kind: The settings class.
        config: The file, or None.
        given: Nested mapping of what was given as flags.
        where: The command, with which messages begin if there is no file.
        renamed: Former names of settings, as for :func:`repri.runtime.settings.parse`.

    Returns:
        The settings.
    """
    values = {} if config is None else expand(kind, read_yaml(config))
    flags = [f"--{flag.name} {_text(value)}" for flag in flags_of(kind) for value in _get(given, flag.path)]
    if config is not None:
        where = " ".join([str(config), *(["with", *flags] if flags else [])])
    return parse(kind, _merged(values, given), where, renamed)


def _leaves(kind: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Field[Any], Any, str]]:
    """Path, field, type and docstring of every field that has a flag."""
    wanted, docs = field_types(kind), field_docs(kind)
    for field in fields(kind):
        inner = without_none(wanted[field.name])
        if is_dataclass(inner):
            yield from _leaves(inner, (*path, field.name))
        elif inner is not dict and get_origin(inner) is not dict:
            yield (*path, field.name), field, wanted[field.name], docs.get(field.name, "")


def _short(path: tuple[str, ...]) -> str:
    """The field's own name, or its section's if it is called ``name``."""
    name = path[-2] if len(path) > 1 and path[-1] == "name" else path[-1]
    return name.replace("_", "-")


def _help(field: Field[Any], doc: str) -> str:
    default = field.default if field.default_factory is MISSING else field.default_factory()
    if default is MISSING:
        return f"{doc} [required]".strip()
    return doc if default is None or default == () else f"{doc} [default: {_text(default)}]".strip()


def _text(value: Any) -> str:
    """A value as it is written on the command line."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ",".join(map(str, value)) if isinstance(value, tuple) else "none" if value is None else str(value)


def _metavar(kind: Any) -> str:
    """What the help shows in the place of a value."""
    if get_origin(kind) is tuple:
        return "A,B,…"
    if get_origin(kind) is Literal:
        return f"[{'|'.join(map(str, get_args(kind)))}]"
    return {int: "INTEGER", float: "NUMBER", Path: "PATH"}.get(kind, "TEXT")


def _put(mapping: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    for name in path[:-1]:
        mapping = mapping.setdefault(name, {})
    mapping[path[-1]] = value


def _get(mapping: Any, path: tuple[str, ...]) -> list[Any]:
    """The value at a path in a list, or an empty list."""
    for name in path:
        if not isinstance(mapping, Mapping) or name not in mapping:
            return []
        mapping = mapping[name]
    return [mapping]


def _merged(values: Any, given: Any) -> Any:
    """``values`` with what was ``given`` in their place; a section that is no mapping is kept, for its message."""
    if not isinstance(given, Mapping):
        return given
    if not isinstance(values, Mapping):
        return values
    merged = {name: _merged(values[name], value) if name in values else value for name, value in given.items()}
    return {**values, **merged}
