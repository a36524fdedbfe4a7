"""Helpers that several commands use: progress bars, and settings of a method."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Annotated, Any

import typer

from repri.runtime.errors import RepriError

__all__ = ["Bars", "MethodOptions", "counting", "method_settings", "running"]

MethodOptions = Annotated[
    list[str] | None,
    typer.Option("--set", help="One setting of the method, such as --set lr=0.05; may be given several times."),
]


def method_settings(pairs: list[str] | None) -> dict[str, Any]:
    """The values of ``--set NAME=VALUE``: one setting of the method each, written as in YAML.

    Example:
        >>> method_settings(["lr=1e-3", "t_pi=[10, 20]"])
        {'lr': 0.001, 't_pi': [10, 20]}
    """
    from repri.runtime.reading import parse_yaml, short

    values = {}
    for pair in pairs or []:
        name, equals, value = pair.partition("=")
        if not equals:
            raise RepriError(f"--set takes NAME=VALUE, such as --set lr=0.05, got {pair!r}.")
        try:
            values[name] = parse_yaml(value, "it")
        except RepriError as error:
            raise RepriError(f"--set {name}: {short(value)} is not a YAML value ({error}).") from None
        if isinstance(values[name], str):
            with suppress(ValueError):
                values[name] = float(value)  # 1e-3, which is text to YAML
    return values


SILENCE = 60.0
"""Seconds between two lines of progress in a log file."""


class Bars:
    """One progress bar for each kind of work, with figures beside it, on stderr; where stderr is no terminal, a line
    now and then."""

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
        """Show how far a kind of work is; ``text`` holds figures."""
        if what not in self.tasks:
            self.tasks[what] = self.progress.add_task(what, total=total or None, text="")
        self.progress.update(self.tasks[what], completed=done, total=total or None, text=text)
        if self.progress.disable and (time.monotonic() - self.told > SILENCE or (text and done == total)):
            self.told = time.monotonic()
            line = f"{what}: {done} of {total or '?'} {text}".rstrip()
            self.console.print(line, highlight=False, markup=False, soft_wrap=True)


def counting(bars: Bars | None, what: str = "count classes") -> Callable[[int, int], None] | None:
    """A function that shows one kind of work as a bar."""
    return None if bars is None else lambda done, total: bars.show(what, done, total)


def running(bars: Bars) -> Callable[..., None]:
    """A function that shows tasks as a bar with the running mIoU."""
    from repri.evaluation.metrics import running_miou

    def show(what: str, done: int, total: int, counts: Any) -> None:
        bars.show(what, done, total, "" if counts is None else f"mIoU {running_miou(counts):.1f}")

    return show
