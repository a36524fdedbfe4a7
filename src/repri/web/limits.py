"""What the server refuses, and how it says so."""

from __future__ import annotations

from dataclasses import dataclass

from repri.runtime.errors import RepriError

__all__ = ["Limits", "Refused"]


@dataclass(frozen=True)
class Limits:
    """Largest sizes of what clients send."""

    body: int = 256_000_000
    """Bytes of a request."""
    file: int = 64_000_000
    """Bytes of one image."""
    pixels: int = 50_000_000
    """Pixels of one image."""
    side: int = 65_500
    """Pixels of the longest side, which browsers can show."""
    images: int = 20_000
    """Images of a project."""
    unpacked: int = 1_000_000_000
    """Bytes that an archive may unpack to."""
    projects: int = 1_000
    """Projects that the server keeps."""
    waiting: int = 16
    """Questions that may wait for the worker."""
    listeners: int = 32
    """Pages that may follow one project."""


class Refused(RepriError):
    """A request that is not carried out, with the HTTP status that says why.

    Args:
        status: The HTTP status.
        sentence: What is wrong, and what to do.
    """

    def __init__(self, status: int, sentence: str):
        super().__init__(sentence)
        self.status = status
