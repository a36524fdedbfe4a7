"""How pictures of a batch share the cores."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager

import torch

__all__ = ["side_by_side"]

_lock, _calls, _threads = threading.Lock(), 0, 1


@contextmanager
def side_by_side(batch: int, device: torch.device) -> Generator[tuple[int, Callable[[], object] | None]]:
    """How many threads work on a batch, and what each does first.

    Pictures side by side, each with its share of torch's threads, keep the cores busier than all threads on one
    picture. What a thread sets is also the default of threads to come, so the last call to end puts that back.
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
        share = max(1, _threads // workers)
        yield workers, lambda: torch.set_num_threads(share)
    finally:
        with _lock:
            _calls -= 1
            if _calls == 0:
                torch.set_num_threads(_threads)
