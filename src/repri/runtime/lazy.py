"""Packages whose names are imported when they are first used, because torch takes seconds to import."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

__all__ = ["lazy_names"]


def lazy_names(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """The ``__getattr__`` of a package that imports each public name from its module on first use.

    Args:
        package: ``__name__`` of the package.
        modules: Public name → module that defines it, relative to the package (``".solver"``).

    Returns:
        A function for the module attribute ``__getattr__``.
    """

    def load(name: str) -> Any:
        if name in modules:
            return getattr(import_module(modules[name], package), name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return load
