"""Timing that a busy machine does not fool: the methods take turns, and medians are compared."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping

__all__ = ["medians"]


def medians(methods: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Median seconds of each method, after one warm-up each."""
    times: dict[str, list[float]] = {name: [] for name in methods}
    for turn in range(repeats + 1):
        for name, run in methods.items():
            start = time.perf_counter()
            run()
            if turn:
                times[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in times.items()}
