"""How the images of a batch share the cores."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import torch

from repri.runtime.parallel import parallel

__all__ = ["all_of", "one_thread", "side_by_side"]

T = TypeVar("T")
_lock, _calls, _threads = threading.Lock(), 0, 1


@contextmanager
def side_by_side(batch: int, device: torch.device) -> Generator[tuple[int, Callable[[], object] | None]]:
    """Number of threads that work on a batch, and the function that each thread calls first.

    Images side by side, each with a part of torch's threads, keep the cores busier than all threads on one image. The
    number of threads that a thread sets is also the default of later threads, so the last call to end restores it.
    """
    global _calls, _threads
    if batch == 1:
        yield 0, None
        return
    with _lock:
        _threads = _threads if _calls else torch.get_num_threads()
        _calls += 1
    try:
        workers = min(batch, _threads if device.type == "cpu" else 2)  # of two, one may read while the other computes
        part = max(1, _threads // workers)
        yield workers, lambda: torch.set_num_threads(part)
    finally:
        with _lock:
            _calls -= 1
            if _calls == 0:
                torch.set_num_threads(_threads)


def all_of(tasks: Sequence[Callable[[], T]], device: torch.device) -> list[T]:
    """The results of tasks that do not need each other, in their order; the cores share them. A thread that has only
    one core does them itself, as inside of another task."""
    if torch.get_num_threads() == 1 and device.type == "cpu":
        return [task() for task in tasks]
    with side_by_side(len(tasks), device) as (workers, prepare):
        return list(parallel(lambda task: task(), tasks, workers, prepare=prepare))


@contextmanager
def one_thread() -> Generator[None]:
    """One thread of torch for what is inside, so that sums, and what follows from them, do not depend on the number of
    threads."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
