"""SIGTERM and Ctrl-C: the run stops after the step that it is in, and saves."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

__all__ = ["Stopped", "stop_signal"]

PATIENCE = 30.0
"""Seconds for saving: a SIGTERM that comes later than that after the first one ends the process at once."""


class Stopped(Exception):
    """The run was asked to stop, and has saved its state."""


@contextmanager
def stop_signal() -> Generator[Callable[[], bool]]:
    """Hold back SIGTERM and Ctrl-C, and tell whether one came.

    A second Ctrl-C is not held back, nor is a SIGTERM some time after the first: torchrun and schedulers send it twice
    at once. A signal that is ignored, as shells want it for their background jobs, stays so.

    Yields:
        A function that returns whether the run was asked to stop.
    """
    asked: list[float] = []
    before: dict[int, Any] = {}

    def remember(number: int, frame: Any) -> None:
        asked.append(time.monotonic())
        if len(asked) > 1 and (number == signal.SIGINT or asked[-1] - asked[0] > PATIENCE):
            signal.signal(number, before[number])
            signal.raise_signal(number)

    try:
        for number in (signal.SIGTERM, signal.SIGINT):
            if signal.getsignal(number) != signal.SIG_IGN:
                before[number] = signal.signal(number, remember)
    except ValueError:  # not the main thread, which alone receives signals
        yield lambda: False
        return
    try:
        yield lambda: bool(asked)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
