"""Text and JSON files."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from repri.runtime import reading
from repri.runtime.errors import RepriError

__all__ = ["forget_json", "read_json", "read_lines"]


def read_lines(path: Path) -> list[str]:
    """Read the lines of a text file in UTF-8, with or without a byte-order mark.

    Args:
        path: The file.

    Returns:
        Its lines, which end at line feeds alone, the empty ones too.
    """
    return [line.removesuffix("\r") for line in reading.read_text(path).removesuffix("\n").split("\n")]


def read_json(path: Path) -> dict | list:
    """Read a JSON file that holds a mapping or a list.

    The content of the last file is kept until :func:`forget_json`, so that a format can be detected and read while the
    file is parsed once.

    Args:
        path: The file.

    Returns:
        Its content, which must not be changed.
    """
    try:
        stat = path.stat()
    except OSError as error:
        raise RepriError(f"cannot read {path}: {error.strerror}") from None
    content = _parse(path, stat.st_size, stat.st_mtime_ns)
    if not isinstance(content, (dict, list)):
        what = "nothing" if content is None else "one text" if isinstance(content, str) else "one value"
        raise RepriError(f"{path} is not an annotation file: it holds {what} instead of a list or a mapping")
    return content


@lru_cache(maxsize=1)
def _parse(path: Path, size: int, time: int) -> object:
    """Parse a file; its size and time of change tell whether it is still the one that was parsed before."""
    return reading.read_json(path)


def forget_json() -> None:
    """Free the content that :func:`read_json` keeps."""
    _parse.cache_clear()
