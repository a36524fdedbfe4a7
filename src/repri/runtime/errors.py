"""The error that a user's mistake raises."""

from __future__ import annotations

__all__ = ["MissingExtraError", "RepriError"]


LONGEST = 1600
"""Characters of a message."""


class RepriError(ValueError):
    """A mistake in what the user gave, in one sentence: what is wrong, where, and what to do.

    The command line prints the sentence alone. Any other exception is a bug and keeps its traceback.

    Example:
        >>> raise RepriError("size must be at least 8 pixels, got 3")
        Traceback (most recent call last):
        repri.runtime.errors.RepriError: size must be at least 8 pixels, got 3
    """

    def __str__(self) -> str:
        """The sentence; whatever a file put into it, it fits a screen."""
        text = super().__str__()
        return text if len(text) <= LONGEST else f"{text[: LONGEST // 2]} … {text[-LONGEST // 4 :]}"


class MissingExtraError(RepriError, ImportError):
    """An optional dependency is not installed; the sentence names the ``pip install`` command."""
