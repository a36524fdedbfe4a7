"""Files: the cache, and writing so that a reader never sees half of a file."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from .errors import RepriError

__all__ = ["atomic", "cache_folder", "check_cache", "check_writable", "new_folder"]


def cache_folder() -> Path:
    """The folder of the user cache; ``REPRI_CACHE`` overrides it."""
    import platformdirs  # late: `repri --help` does not need it

    try:
        cache = os.environ.get("REPRI_CACHE") or platformdirs.user_cache_dir("repri", appauthor=False)
        return Path(cache).expanduser()
    except RuntimeError:  # a user without a home
        return Path(tempfile.gettempdir()) / f"repri-{os.getuid() if hasattr(os, 'getuid') else 'cache'}"


@contextmanager
def atomic(path: Path) -> Generator[Path]:
    """A temporary name beside ``path``, with the same suffix, which becomes ``path`` if the block ends well."""
    check_writable(path)
    temporary = path.with_name(f".{os.getpid()}-{threading.get_ident()}{path.suffix}")
    try:
        try:
            yield temporary
            os.replace(temporary, path)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                raise RepriError(f"Cannot write {path}: {error.strerror}; make room and run it again.") from error
            if error.filename not in (None, str(temporary)):
                raise  # about another file
            raise RepriError(f"Cannot write {path}: {error.strerror or error}; choose another name.") from error
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def new_folder(path: Path) -> Generator[Path]:
    """A temporary folder beside ``path``, which becomes ``path`` if the block ends well; ``path`` must be new or
    empty."""
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise RepriError(f"{path} exists already: give the name of a new folder.")
    check_writable(path.parent / f".{path.name}")
    temporary = path.parent / f".{path.name}-{os.getpid()}-{threading.get_ident()}"
    temporary.mkdir()
    try:
        yield temporary
        if path.exists():
            path.rmdir()
        os.replace(temporary, path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def check_cache() -> None:
    """Raise a RepriError if the cache cannot be written; to be called before long work that needs it."""
    try:
        check_writable(cache_folder() / "x")
    except RepriError as error:
        reason = getattr(error.__cause__, "strerror", None) or error
        raise RepriError(
            f"The cache {cache_folder()} cannot be written ({reason}): set REPRI_CACHE to a folder that can be written."
        ) from None


def check_writable(path: Path) -> None:
    """Raise a RepriError if ``path`` cannot be written; to be called before long work."""
    try:
        if path.is_dir():
            raise RepriError(f"Cannot write {path}: it is a folder; give a file name.")
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise RepriError(f"Cannot write {path}: {error.strerror or error}; choose another place.") from error
