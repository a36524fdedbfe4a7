"""Unpacking archives: only the wanted members, and never outside the folder."""

from __future__ import annotations

import os
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import IO

from repri.runtime.errors import RepriError
from repri.runtime.files import atomic

__all__ = ["extract"]

ZIP_ERRORS = (zipfile.BadZipFile, zlib.error, NotImplementedError)
"""Errors of zipfile for a damaged member; the last one if the damage looks like an unknown compression."""
Progress = Callable[[int, int], None]
"""Called with the bytes of the archive that were read and with its size."""


def extract(archive: Path, root: Path, place: Callable[[str], str | None], progress: Progress | None = None) -> int:
    """Unpack a zip or tar archive.

    Files are written under another name and then renamed. Those that are there with the right size are left alone, so
    an interrupted run goes on. An archive with a member that would leave ``root`` (an absolute name, ``..``, a link) is
    refused.

    Args:
        archive: The archive.
        root: Folder to unpack into.
        place: Gives the path of a member relative to ``root``, or None if it is not wanted.
        progress: Called as the archive is read.

    Returns:
        Number of wanted members.
    """
    count = 0
    total = archive.stat().st_size
    try:
        for name, size, is_file, content, read in _members(archive):
            if progress:
                progress(min(read, total), total)
            _refuse_escapes(archive, name)
            wanted = place(name)
            if wanted is None:
                continue
            if not is_file:
                raise RepriError(f"{archive} holds {name!r} as a link or device, not a file: it is not unpacked")
            _refuse_escapes(archive, wanted)
            target = root / wanted
            count += 1
            if target.is_file() and target.stat().st_size == size:
                continue
            with atomic(target) as temporary, content() as source, temporary.open("wb") as file:
                shutil.copyfileobj(source, file, 1 << 20)
            if target.stat().st_size != size:
                target.unlink()
                raise RepriError(f"{archive}: {name} breaks off: remove the archive and get it again")
    except (tarfile.TarError, EOFError, OSError, *ZIP_ERRORS) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise RepriError(f"{archive} is damaged ({error}): remove it and get it again") from None
    if count == 0:
        raise RepriError(f"{archive} holds none of the expected files: it is another archive")
    return count


Member = tuple[str, int, bool, Callable[[], IO[bytes]], int]
"""Name, size, whether it is a regular file, a function that opens it, bytes of the archive read so far."""


def _members(archive: Path) -> Iterator[Member]:
    """The members of an archive that are not folders."""
    if zipfile.is_zipfile(archive):
        yield from _zip_members(archive)
    else:
        yield from _tar_members(archive)


def _zip_members(archive: Path) -> Iterator[Member]:
    """The members of a zip archive."""
    with zipfile.ZipFile(archive) as file:
        for info in file.infolist():
            if not info.is_dir():
                is_link = (info.external_attr >> 28) == 0o12
                yield info.filename, info.file_size, not is_link, lambda info=info: file.open(info), info.header_offset


def _tar_members(archive: Path) -> Iterator[Member]:
    """The members of a tar archive, compressed or not, in one pass."""
    with archive.open("rb") as raw, tarfile.open(fileobj=raw, mode="r|*") as file:
        for info in file:
            if not info.isdir():
                yield info.name, info.size, info.isreg(), lambda info=info: _content(file, info), raw.tell()


def _content(file: tarfile.TarFile, info: tarfile.TarInfo) -> IO[bytes]:
    """Open a member that is a regular file."""
    stream = file.extractfile(info)
    assert stream is not None
    return stream


def _refuse_escapes(archive: Path, name: str) -> None:
    """Raise an error if a name points outside the folder."""
    path = PurePosixPath(name.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts or os.path.splitdrive(name)[0] or "\0" in name:
        raise RepriError(f"{archive} holds {name!r}, which points outside its folder: it is not unpacked")
