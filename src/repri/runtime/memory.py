"""Memory of the process."""

from __future__ import annotations

import ctypes
import resource
import sys

__all__ = ["peak_memory", "return_memory", "reuse_memory"]

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
"""Names of two options of glibc's ``mallopt``."""


def peak_memory() -> float:
    """Largest memory that this process ever held, in gigabytes."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9


def return_memory() -> bool:
    """Return freed memory to the system, after something very large was freed: glibc may keep it, so that the next
    large thing comes on top of it. It needs glibc; returns whether it was done."""
    try:
        return bool(ctypes.CDLL(None).malloc_trim(0))
    except (AttributeError, OSError, TypeError):
        return False


def reuse_memory() -> bool:
    """Keep freed memory instead of returning it to the system: a loop that makes tensors of megabytes spends a fifth
    of its time on getting the same pages again. It affects the whole process and needs glibc; returns whether it was
    done."""
    try:
        adjust = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    largest = 2**31 - 1  # an int, and more than is ever freed at once
    return bool(adjust(MMAP_THRESHOLD, 2**30) and adjust(TRIM_THRESHOLD, largest))
