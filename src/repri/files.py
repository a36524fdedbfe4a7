"""Writing files so that a reader never sees half of one. Knows nothing of the rest."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["atomic", "check_writable"]


@contextmanager
def atomic(path: Path) -> Generator[Path]:
    """A temporary name beside ``path``, with its suffix, that becomes ``path`` if the block ends well."""
    check_writable(path)
    handle, name = tempfile.mkstemp(prefix=f".{path.stem}-", suffix=path.suffix, dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(0o666 & ~_umask())  # mkstemp's files are private
        os.replace(temporary, path)
    except OSError as error:
        raise ValueError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        temporary.unlink(missing_ok=True)


def check_writable(path: Path) -> None:
    """Raise a one-sentence ValueError if ``path`` cannot be written; to be called before long work."""
    try:
        if path.is_dir():
            raise ValueError(f"cannot write {path}: it is a folder; give a file name")
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise ValueError(f"cannot write {path}: {error.strerror or error}; choose another place") from error


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
