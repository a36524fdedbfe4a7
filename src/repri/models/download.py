"""Fetching a file: resumed where it stopped, checked, and renamed into place only when whole."""

from __future__ import annotations

import hashlib
import os
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

from repri.files import check_writable

__all__ = ["fetch", "file_sha256"]

BLOCK = 1 << 20
Progress = Callable[[int, int], None]
"""Called with the bytes that are here and the bytes in all (0: unknown)."""


def fetch(url: str, path: Path, hash_prefix: str, progress: Progress | None = None, timeout: float = 30) -> Path:
    """The file at ``url`` as ``path``, with the given start of its sha256.

    What has arrived is kept in ``path.part``; the next call goes on from there. A ValueError says what
    happened and how to put the file in place by hand. ``REPRI_OFFLINE=1`` forbids the network.
    """
    if path.is_file():
        _check(path, path, hash_prefix, url)
        return path
    if os.environ.get("REPRI_OFFLINE", "0") not in ("", "0"):
        raise ValueError(f"REPRI_OFFLINE is set, so {url} is not fetched: {_by_hand(url, path)}")
    check_writable(path)
    part = path.with_name(path.name + ".part")
    start = part.stat().st_size if part.is_file() else 0
    request = urllib.request.Request(url, headers={"Range": f"bytes={start}-"} if start else {})
    try:
        with urllib.request.urlopen(request, timeout=timeout) as response:
            resumed = response.status == 206
            here = start if resumed else 0
            total = here + int(response.headers.get("Content-Length") or 0)
            with part.open("ab" if resumed else "wb") as file:
                while block := response.read(BLOCK):
                    file.write(block)
                    here += len(block)
                    if progress:
                        progress(here, total)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code != 416:  # the part is already whole: the check below decides
            raise ValueError(f"{url} answered {error.code} ({error.reason}): {_by_hand(url, path)}") from None
    except (urllib.error.URLError, OSError) as error:
        reason = getattr(error, "reason", None) or error
        raise ValueError(
            f"{url} could not be fetched ({reason}): try again to go on where it stopped, or {_by_hand(url, path)}"
        ) from None
    else:
        if total and here < total:
            raise ValueError(
                f"{url} broke off after {here} of {total} bytes: try again to go on where it stopped, "
                f"or {_by_hand(url, path)}"
            )
    _check(part, path, hash_prefix, url)
    os.replace(part, path)
    return path


def file_sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            digest.update(block)
    return digest.hexdigest()


def _check(found: Path, path: Path, hash_prefix: str, url: str) -> None:
    digest = file_sha256(found)
    if not digest.startswith(hash_prefix.lower()):
        found.unlink()
        raise ValueError(
            f"{path.name} has the sha256 {digest[:16]}… and should have {hash_prefix[:16]}…: it was deleted; "
            f"try again, or {_by_hand(url, path)}"
        )


def _by_hand(url: str, path: Path) -> str:
    return f"download {url} by hand and put it at {path}"
