"""How much one input may cost, before it is refused; each limit is an environment variable that raises it.

A small file can ask for a great deal of memory or time: an image that unpacks to a billion pixels, a text that nests a
thousand times. The cost is estimated before the work begins. The message about it says the limit and how to raise it.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from .errors import RepriError

__all__ = ["LIMITS", "check_cost", "limit"]


class Limit(NamedTuple):
    """One limit."""

    default: float
    unit: str
    """What is counted, as messages say it."""


LIMITS = {
    "REPRI_MAX_PIXELS": Limit(178_956_970, "pixels"),
    "REPRI_MAX_SUPPORT": Limit(60_000_000, "pixels, as an annotated image"),
    "REPRI_MAX_SIZE": Limit(4096, "pixels along its long side"),
    "REPRI_MAX_JSON_GB": Limit(6, "GB of memory"),
    "REPRI_MAX_YAML_KB": Limit(200, "KB"),
    "REPRI_MAX_TEXT_MB": Limit(200, "MB"),
    "REPRI_MAX_RUNS": Limit(1_000_000, "runs"),
    "REPRI_MAX_OUTLINE": Limit(20_000_000, "pixels of outline"),
    "REPRI_MAX_STROKES": Limit(4_000_000_000, "pixels under its strokes"),
    "REPRI_MAX_WEIGHTS_GB": Limit(16, "GB"),
    "REPRI_MAX_DOWNLOAD_GB": Limit(64, "GB"),
}
"""Environment variable → its limit."""


def limit(name: str) -> float:
    """The value of a limit.

    Args:
        name: The environment variable.

    Returns:
        Its value, or the default if it is not set.

    Example:
        >>> limit("REPRI_MAX_RUNS")
        1000000
    """
    text = os.environ.get(name)
    if not text:
        return LIMITS[name].default
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not value > 0:
        raise RepriError(f"{name} must be a number above 0 ({LIMITS[name].unit}), got {text!r}.")
    return value


def check_cost(name: str, cost: float, what: str) -> None:
    """Refuse work that costs more than its limit.

    Args:
        name: The environment variable of the limit.
        cost: The cost, in the unit of the limit.
        what: The input, with which the message begins.

    Example:
        >>> check_cost("REPRI_MAX_RUNS", 2e6, "it")
        Traceback (most recent call last):
        repri.runtime.errors.RepriError: it has 2,000,000 runs, the limit is 1,000,000: set REPRI_MAX_RUNS to raise it
    """
    most = limit(name)
    if cost > most:
        verb = "takes" if "GB" in LIMITS[name].unit else "has"
        raise RepriError(
            f"{what} {verb} {_number(cost)} {LIMITS[name].unit}, the limit is {_number(most)}: set {name} to raise it"
        )


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:,.1f}"
