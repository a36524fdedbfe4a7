"""What a process holds of the machine's memory."""

from __future__ import annotations

import ctypes
import resource
import sys

__all__ = ["peak_memory", "reuse_memory"]

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
"""Of glibc's ``mallopt``."""


def peak_memory() -> float:
    """Most that this process ever held, in gigabytes."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9


def reuse_memory() -> bool:
    """Keep what is freed instead of giving it back to the system: a loop that makes tensors of megabytes spends a fifth
    of its time on getting the same pages again. Of the whole process, glibc only; returns whether it was done."""
    try:
        adjust = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    largest = 2**31 - 1  # an int, and more than is ever freed at once
    return bool(adjust(MMAP_THRESHOLD, 2**30) and adjust(TRIM_THRESHOLD, largest))
