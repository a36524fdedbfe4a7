"""What several commands share: bars, and settings given as name=value."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

__all__ = ["Bars", "counting", "settings_of"]


def settings_of(pairs: list[str] | None) -> dict[str, Any]:
    """``["lr=0.1", "layers=[-2, -1]"]`` as a mapping; values are YAML."""
    import yaml

    values = {}
    for pair in pairs or []:
        name, equals, value = pair.partition("=")
        if not equals:
            raise ValueError(f"--set takes name=value, got {pair!r}")
        try:
            values[name] = yaml.safe_load(value)
        except yaml.YAMLError:
            raise ValueError(f"--set {name}: {value!r} is not a YAML value") from None
        if isinstance(values[name], str):
            with suppress(ValueError):
                values[name] = float(value)  # 1e-3, which is text to YAML
    return values


SILENCE = 60.0
"""Seconds between two lines of progress in a log file."""


class Bars:
    """One bar for each thing that is being done, with figures beside it, on stderr; a line now and then if that is
    no terminal."""

    def __init__(self):
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}"), BarColumn(20), MofNCompleteColumn(), TimeRemainingColumn())
        self.console = Console(stderr=True)
        live = self.console.is_terminal
        self.progress = Progress(*columns, TextColumn("{task.fields[text]}"), console=self.console, disable=not live)
        self.tasks = {}
        self.told = time.monotonic()

    def __enter__(self) -> Bars:
        self.progress.__enter__()
        return self

    def __exit__(self, *details: Any) -> None:
        self.progress.__exit__(*details)

    def show(self, what: str, done: int, total: int, text: str = "") -> None:
        if what not in self.tasks:
            self.tasks[what] = self.progress.add_task(what, total=total or None, text="")
        self.progress.update(self.tasks[what], completed=done, total=total or None, text=text)
        if self.progress.disable and (time.monotonic() - self.told > SILENCE or (text and done == total)):
            self.told = time.monotonic()
            line = f"{what}: {done} of {total or '?'} {text}".rstrip()
            self.console.print(line, highlight=False, markup=False, soft_wrap=True)


def counting(bars: Bars | None, what: str = "count classes") -> Callable[[int, int], None] | None:
    """A bar, such as that of an index of classes."""
    return None if bars is None else lambda done, total: bars.show(what, done, total)
