"""Downloading a file: resumed where it stopped, checked, and renamed into place only when it is whole."""

from __future__ import annotations

import hashlib
import http.client
import os
import urllib.error
import urllib.request
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from filelock import FileLock

from .errors import RepriError
from .files import check_writable
from .limits import limit

__all__ = ["fetch", "file_sha256", "offline", "without_fetching"]

BLOCK = 1 << 20
Progress = Callable[[int, int], None]
"""Called with the number of bytes that have arrived and the total (0: unknown)."""


def fetch(
    url: str,
    path: Path,
    digest: str,
    progress: Progress | None = None,
    timeout: float = 30,
    size: int | None = None,
) -> Path:
    """Download a file and check it.

    The part that has arrived is kept in ``path.part``; the next call goes on from there. A RepriError says what
    happened and how to put the file in place by hand. ``REPRI_OFFLINE=1`` forbids the network.

    Args:
        url: Address of the file.
        path: Where it is put.
        digest: The sha256 that its publisher gives, or the start of it; ``md5:…`` where there is nothing better.
        progress: Called as bytes arrive.
        timeout: Seconds after which a silent server is given up.
        size: Bytes that the file has, if this is known. A server that sends more is cut off; without a size, at
            REPRI_MAX_DOWNLOAD_GB.

    Returns:
        The path.
    """
    if path.is_file():
        if wrong := _wrong_digest(path, digest):
            raise RepriError(f"{path} {wrong}: remove it and try again, or {_by_hand(url, path)}")
        return path
    if offline():
        raise RepriError(f"REPRI_OFFLINE is set, so {url} is not fetched: {_by_hand(url, path)}")
    check_writable(path, make=True)
    with FileLock(path.with_name(f".{path.name}.lock")):  # two processes may want it at once
        if not path.is_file():
            most = limit("REPRI_MAX_DOWNLOAD_GB") * 1e9 if size is None else size
            _fetch_part(url, path, progress, timeout, most)
            _finish(url, path, digest)
    return path


def offline() -> bool:
    """Whether REPRI_OFFLINE, or :func:`without_fetching`, forbids the network."""
    return _is_set("REPRI_OFFLINE") or _ONLY_CACHED.get()


def _is_set(name: str) -> bool:
    return os.environ.get(name, "0") not in ("", "0")


_ONLY_CACHED: ContextVar[bool] = ContextVar("only cached", default=False)


@contextmanager
def without_fetching() -> Generator[None]:
    """Forbid the network while a model is loaded that a file names and not the user: somebody else may have written
    the file. ``REPRI_FETCH=1`` allows it."""
    token = _ONLY_CACHED.set(not _is_set("REPRI_FETCH"))
    try:
        yield
    finally:
        _ONLY_CACHED.reset(token)


def _part(path: Path) -> Path:
    return path.with_name(path.name + ".part")


def _fetch_part(url: str, path: Path, progress: Progress | None, timeout: float, most: float) -> None:
    """Bring ``path.part`` to its full length, or say why not."""
    part = _part(path)
    start = part.stat().st_size if part.is_file() else 0
    if not url.startswith(("http://", "https://", "ftp://", "file://")):
        raise RepriError(f"{url!r} is not an address: it must begin with http:// or https://")
    request = urllib.request.Request(url, headers={"Range": f"bytes={start}-"} if start else {})
    try:
        with urllib.request.urlopen(request, timeout=timeout) as response:
            resumed = response.status == 206 and response.headers.get("Content-Range", "").startswith(f"bytes {start}-")
            if response.status == 206 and not resumed:
                part.unlink()
                raise RepriError(f"{url} sent another part than the one asked for: try again to start over")
            here = start if resumed else 0
            length = response.headers.get("Content-Length")
            total = here + int(length) if length and length.isdecimal() else 0
            if total > most:
                raise _too_much(url, part, most)
            with part.open("ab" if resumed else "wb") as file:
                while block := response.read(BLOCK):
                    here += len(block)
                    if here > most:
                        raise _too_much(url, part, most)
                    file.write(block)
                    if progress:
                        progress(here, total)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code != 416:  # the part is already whole: the hash decides
            raise RepriError(f"{url} answered {error.code} ({error.reason}): {_by_hand(url, path)}") from None
    except (urllib.error.URLError, http.client.HTTPException, OSError) as error:
        reason = getattr(error, "reason", None) or error
        raise RepriError(
            f"{url} could not be fetched ({reason}): try again to go on where it stopped, or {_by_hand(url, path)}"
        ) from None
    else:
        if total and here < total:
            raise RepriError(
                f"{url} broke off after {here} of {total} bytes: try again to go on where it stopped, "
                f"or {_by_hand(url, path)}"
            )


def _too_much(url: str, part: Path, most: float) -> RepriError:
    part.unlink(missing_ok=True)
    return RepriError(
        f"{url} sends more than the {most / 1e9:.3g} GB that are expected: it was discarded; "
        "REPRI_MAX_DOWNLOAD_GB is the limit of files whose size is not known"
    )


def _finish(url: str, path: Path, digest: str) -> None:
    part = _part(path)
    if wrong := _wrong_digest(part, digest):
        part.unlink()
        raise RepriError(f"what arrived from {url} {wrong}: it was discarded; try again, or {_by_hand(url, path)}")
    os.replace(part, path)


def _wrong_digest(path: Path, digest: str) -> str:
    """A description of what is wrong with a file's digest, or an empty text."""
    kind, _, wanted = digest.lower().rpartition(":")
    found = _digest(path, kind or "sha256")
    return (
        "" if found.startswith(wanted) else f"has the {kind or 'sha256'} {found[:16]}… and should have {wanted[:16]}…"
    )


def file_sha256(path: Path) -> str:
    return _digest(path, "sha256")


def _digest(path: Path, kind: str) -> str:
    digest = hashlib.new(kind, usedforsecurity=False)
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            digest.update(block)
    return digest.hexdigest()


def _by_hand(url: str, path: Path) -> str:
    return f"download {url} by hand and put it at {path}"
