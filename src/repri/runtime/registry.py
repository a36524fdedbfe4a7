"""Things that are known by name, and that other packages may add to."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from .errors import RepriError

__all__ = ["Registry"]

T = TypeVar("T")


class Registry(Generic[T]):
    """Named objects of one kind, from this package, from user code and from installed packages.

    Another package adds an object without any import of ours: it declares an entry point in the group of the
    registry, and the object is loaded when its name is first asked for.

    Args:
        what: What the objects are, for messages: ``"method"``.
        group: Entry-point group: ``"repri.methods"``.

    Example:
        >>> tools = Registry[type]("tool", "repri.tools")
        >>> tools.register("list", list, "an ordinary list")
        >>> tools["list"]()
        []
        >>> tools["lst"]
        Traceback (most recent call last):
        repri.runtime.errors.RepriError: There is no tool named 'lst', did you mean 'list'? Known: list.
    """

    def __init__(self, what: str, group: str):
        self.what, self.group = what, group
        self._objects: dict[str, T] = {}
        self._about: dict[str, str] = {}

    def register(self, name: str, value: T, about: str = "") -> None:
        """Add an object under a name that is not taken, or replace the one that was registered by the same code."""
        known = self._objects.get(name)
        if known is not None and _origin(known) != _origin(value):
            article = "an" if self.what[0] in "aeiou" else "a"
            raise RepriError(f"There is already {article} {self.what} named {name!r}: choose another name.")
        self._objects[name], self._about[name] = value, about

    def decorator(self, name: str, about: str = "") -> Callable[[T], T]:
        """A decorator that registers what it decorates and returns it unchanged."""

        def add(value: T) -> T:
            self.register(name, value, about)
            return value

        return add

    def __getitem__(self, name: str) -> T:
        if name not in self._objects and name in (found := self._entry_points()):
            self.register(name, found[name].load())
        if name not in self._objects:
            known = list(self)
            close = difflib.get_close_matches(str(name), known, n=1)
            hint = f", did you mean {close[0]!r}?" if close else "."
            raise RepriError(f"There is no {self.what} named {name!r}{hint} Known: {', '.join(known)}.")
        return self._objects[name]

    def __contains__(self, name: object) -> bool:
        return name in self._objects or name in self._entry_points()

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys([*self._objects, *self._entry_points()]))

    def about(self, name: str) -> str:
        """One line on an object that is registered; empty for those of other packages that were not loaded yet."""
        return self._about.get(name, "")

    def _entry_points(self) -> dict:
        from importlib.metadata import entry_points  # slow to import, and not needed for --help

        return {point.name: point for point in entry_points(group=self.group)}


def _origin(value: object) -> str | None:
    """Module in which an object was defined; the name of a module itself."""
    return getattr(value, "__module__", None) or getattr(value, "__name__", None)
