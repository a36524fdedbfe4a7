"""Timing that a busy machine does not fool: the methods take turns, and medians are compared."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager

__all__ = ["medians", "occupied_cores"]


def medians(methods: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Measure methods that take turns.

    Args:
        methods: Functions by name.
        repeats: Number of runs of each, after one more that is not counted.

    Returns:
        Median seconds of each method.
    """
    times: dict[str, list[float]] = {name: [] for name in methods}
    for turn in range(repeats + 1):
        for name, run in methods.items():
            start = time.perf_counter()
            run()
            if turn:
                times[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in times.items()}


@contextmanager
def occupied_cores(count: int) -> Generator[None]:
    """Start processes that occupy so many cores, and end them afterwards. Each has a session of its own, because Linux
    divides the processor between sessions first."""
    command = [sys.executable, "-c", "while True: pass"]
    processes = [subprocess.Popen(command, start_new_session=True) for _ in range(count)]
    try:
        time.sleep(0.3 if count else 0)  # until they run
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()
