"""Files: the cache, and writing so that a reader never sees half of a file."""

from __future__ import annotations

import errno
import functools
import hashlib
import os
import platform
import re
import secrets
import shutil
import stat
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from .errors import RepriError

__all__ = [
    "atomic",
    "cache_folder",
    "check_cache",
    "check_writable",
    "new_folder",
    "private_folder",
    "remove_leftovers",
    "scratch",
    "user",
]

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Errors of a disk that is full."""
LEFTOVER = re.compile(r"\.(?:repri-(?P<machine>[0-9a-f]{8})-)?(?P<process>\d{1,9})-[0-9a-f]+(\..*)?")
"""Temporary names: those of this version, with the machine and the process, and those of former versions."""
DAY = 86_400.0
"""Seconds after which a temporary file belongs to nobody, whatever machine made it."""


def cache_folder() -> Path:
    """The folder of the user cache; ``REPRI_CACHE`` overrides it."""
    import platformdirs  # late: `repri --help` does not need it

    try:
        cache = os.environ.get("REPRI_CACHE") or platformdirs.user_cache_dir("repri", appauthor=False)
        return Path(cache).expanduser()
    except RuntimeError:  # a user without a home
        return Path(tempfile.gettempdir()) / f"repri-{user()}"


def user() -> str:
    """A name of the user for folders that several users may see."""
    return str(os.getuid()) if hasattr(os, "getuid") else "cache"


def private_folder(path: Path) -> Path | None:
    """Make a folder that no other user can write to, for files that are executed.

    Args:
        path: The folder.

    Returns:
        The folder, or None if it cannot be made, belongs to somebody else, or can be exchanged by somebody else.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path = path.parent.resolve() / path.name
        for parent in path.parents:
            mode = parent.stat().st_mode
            if mode & 0o002 and not mode & stat.S_ISVTX:  # anybody may rename the folder and put another in its place
                return None
        path.mkdir(mode=0o700, exist_ok=True)
        own = path.lstat()
        if not stat.S_ISDIR(own.st_mode) or (hasattr(os, "getuid") and own.st_uid != os.getuid()):
            return None
        if own.st_mode & 0o077:
            path.chmod(0o700)
        return path
    except OSError:
        return None


@functools.cache
def _machine() -> str:
    """Eight digits that tell machines, their reboots and their containers apart: process ids mean nothing beyond."""
    facts = [platform.node()]
    with suppress(OSError):
        facts.append(Path("/proc/sys/kernel/random/boot_id").read_text())
        facts.append(os.readlink("/proc/self/ns/pid"))
    return hashlib.sha256("\0".join(facts).encode("utf-8", "replace")).hexdigest()[:8]


def _temporary_name(suffix: str = "") -> str:
    return f".repri-{_machine()}-{os.getpid()}-{secrets.token_hex(4)}{suffix}"


def remove_leftovers(folder: Path, below: bool = False) -> None:
    """Remove the temporary files of processes that were killed while they wrote.

    Args:
        folder: The folder; it may be missing.
        below: Whether the folders in it are searched too.
    """
    with suppress(OSError):
        for entry in os.scandir(folder):
            match = LEFTOVER.fullmatch(entry.name)
            with suppress(OSError):
                if match and _is_abandoned(match, entry.stat(follow_symlinks=False).st_mtime):
                    if entry.is_dir(follow_symlinks=False):
                        shutil.rmtree(entry.path, ignore_errors=True)
                    else:
                        os.unlink(entry.path)
                elif below and entry.is_dir(follow_symlinks=False):
                    remove_leftovers(Path(entry.path), below)


def _is_abandoned(match: re.Match[str], changed: float) -> bool:
    """Whether the process that made a temporary file is gone."""
    if match["machine"] in (None, _machine()):
        process = int(match["process"])
        if process == os.getpid():
            return False
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return True
        except OSError:  # it is there, and belongs to somebody else
            return False
    return abs(time.time() - changed) > DAY  # a clock may be wrong in both directions


@contextmanager
def scratch(folder: Path, suffix: str = "") -> Generator[Path]:
    """A new, empty file with a name of its own, which is removed at the end if it is still there."""
    path = folder / _temporary_name(suffix)
    _create(path)
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)


@contextmanager
def atomic(path: Path) -> Generator[Path]:
    """A temporary name beside ``path``, with the same suffix, which becomes ``path`` if the block ends well."""
    suffix = path.suffix if len(path.suffix.encode(errors="surrogateescape")) <= 32 else ""
    temporary = path.with_name(_temporary_name(suffix))
    try:
        if path.is_dir():
            raise RepriError(f"Cannot write {path}: it is a folder; give a file name.")
        _create(temporary)
        _clean_once(path.parent)
    except OSError as error:
        if error.errno in NO_ROOM:
            raise RepriError(f"Cannot write {path}: {error.strerror}; make room and run it again.") from error
        raise RepriError(f"Cannot write {path}: {error.strerror or error}; choose another place.") from error
    try:
        try:
            yield temporary
            os.replace(temporary, path)
        except OSError as error:
            if error.errno in NO_ROOM or (
                error.errno is None and _is_full(path.parent)
            ):  # as encoders of images say it
                reason = error.strerror or os.strerror(errno.ENOSPC)
                raise RepriError(f"Cannot write {path}: {reason}; make room and run it again.") from error
            if error.filename not in (None, str(temporary)):
                raise  # about another file
            raise RepriError(f"Cannot write {path}: {error.strerror or error}; choose another name.") from error
    finally:
        temporary.unlink(missing_ok=True)


def _create(path: Path, tries: int = 3) -> None:
    """Make a new, empty file and its folders; another process that checks the place may remove an empty folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    except FileNotFoundError:
        if tries == 1:
            raise
        _create(path, tries - 1)


def _is_full(folder: Path) -> bool:
    return shutil.disk_usage(folder).free < 1 << 20


@functools.lru_cache(maxsize=4096)
def _clean_once(folder: Path) -> None:
    """Remove leftovers of a folder when this process first writes to it."""
    remove_leftovers(folder)


@contextmanager
def new_folder(path: Path) -> Generator[Path]:
    """A temporary folder beside ``path``, which becomes ``path`` if the block ends well; ``path`` must be new or
    empty."""
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise RepriError(f"{path} exists already: give the name of a new folder.")
    check_writable(path.parent / f".{path.name}", make=True)
    remove_leftovers(path.parent)
    temporary = path.parent / _temporary_name()
    temporary.mkdir()
    try:
        yield temporary
        if path.exists():
            path.rmdir()
        os.replace(temporary, path)
    except OSError as error:
        if error.errno in NO_ROOM:
            raise RepriError(f"Cannot write {path}: {error.strerror}; make room and run it again.") from error
        raise
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


def check_writable(path: Path, make: bool = False) -> None:
    """Raise a RepriError if ``path`` cannot be written; to be called before long work.

    Args:
        path: The file that will be written.
        make: Whether folders that had to be made for this stay. Otherwise they are removed again, so that a mistake
            that is noticed later leaves nothing behind.
    """
    try:
        if path.is_dir():
            raise RepriError(f"Cannot write {path}: it is a folder; give a file name.")
        missing = [folder for folder in path.parents if not folder.exists()]
        try:
            trial = path.with_name(_temporary_name())
            _create(trial)
            trial.unlink()
        finally:
            for folder in () if make else missing:
                with suppress(OSError):  # another process is using it already
                    folder.rmdir()
    except OSError as error:
        raise RepriError(f"Cannot write {path}: {error.strerror or error}; choose another place.") from error
