"""Mapping over many files with threads: in order, a bounded number ahead, stopped at the first error.

Threads are used because decoding, resizing and writing release Python's lock; nothing is pickled, and the
results do not depend on the number of threads.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

__all__ = ["parallel", "usable_cores"]

A = TypeVar("A")
B = TypeVar("B")


def usable_cores() -> int:
    """Number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def parallel(
    function: Callable[[A], B],
    items: Iterable[A],
    workers: int | None = None,
    ahead: int = 4,
    prepare: Callable[[], object] | None = None,
) -> Iterator[B]:
    """The results of a function for each item, in the order of the items.

    Args:
        function: The function.
        items: The items; they are taken as they are needed.
        workers: Number of threads; default: one for each core. With 0, everything is done in the calling thread.
        ahead: Number of results per thread that may wait to be taken.
        prepare: Is called by each thread when it starts.

    Yields:
        The results.
    """
    workers = usable_cores() if workers is None else workers
    if workers <= 0:
        yield from map(function, items)
        return
    source = iter(items)
    with ThreadPoolExecutor(workers, initializer=prepare) as pool:
        waiting: deque[Future[B]] = deque(pool.submit(function, item) for item in islice(source, workers * ahead))
        try:
            while waiting:
                result = waiting.popleft().result()
                waiting.extend(pool.submit(function, item) for item in islice(source, 1))
                yield result
        finally:
            for future in waiting:
                future.cancel()
