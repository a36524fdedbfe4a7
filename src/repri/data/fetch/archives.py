"""Unpacking: only what is wanted, never outside its folder, and known to be complete only when it is."""

from __future__ import annotations

import os
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import IO

from repri.runtime.files import atomic

__all__ = ["extract"]

ZIP_ERRORS = (zipfile.BadZipFile, zlib.error, NotImplementedError)
"""What zipfile raises for a damaged member; the last one where damage looks like an unknown compression."""
Progress = Callable[[int, int], None]


def extract(archive: Path, root: Path, place: Callable[[str], str | None], progress: Progress | None = None) -> int:
    """Unpack the members for which ``place`` gives a path relative to ``root``; returns how many.

    Files are written under another name and then renamed; those that are there with the right size are left
    alone, so an interrupted run goes on. Members that would leave ``root`` (absolute names, ``..``, links) make
    the whole archive refused.
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
                raise ValueError(f"{archive} holds {name!r} as a link or device, not a file: it is not unpacked")
            _refuse_escapes(archive, wanted)
            target = root / wanted
            count += 1
            if target.is_file() and target.stat().st_size == size:
                continue
            with atomic(target) as temporary, content() as source, temporary.open("wb") as file:
                shutil.copyfileobj(source, file, 1 << 20)
            if target.stat().st_size != size:
                target.unlink()
                raise ValueError(f"{archive}: {name} breaks off: remove the archive and get it again")
    except (tarfile.TarError, EOFError, OSError, *ZIP_ERRORS) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise ValueError(f"{archive} is damaged ({error}): remove it and get it again") from None
    if count == 0:
        raise ValueError(f"{archive} holds nothing of what was expected: it is another archive")
    return count


Member = tuple[str, int, bool, Callable[[], IO[bytes]], int]
"""Name, size, whether a regular file, how to open it, bytes of the archive read so far."""


def _members(archive: Path) -> Iterator[Member]:
    if zipfile.is_zipfile(archive):
        yield from _zip_members(archive)
    else:
        yield from _tar_members(archive)


def _zip_members(archive: Path) -> Iterator[Member]:
    with zipfile.ZipFile(archive) as file:
        for info in file.infolist():
            if not info.is_dir():
                is_link = (info.external_attr >> 28) == 0o12
                yield info.filename, info.file_size, not is_link, lambda info=info: file.open(info), info.header_offset


def _tar_members(archive: Path) -> Iterator[Member]:
    with archive.open("rb") as raw, tarfile.open(fileobj=raw, mode="r|*") as file:
        for info in file:
            if not info.isdir():
                yield info.name, info.size, info.isreg(), lambda info=info: _content(file, info), raw.tell()


def _content(file: tarfile.TarFile, info: tarfile.TarInfo) -> IO[bytes]:
    stream = file.extractfile(info)
    assert stream is not None  # a regular file
    return stream


def _refuse_escapes(archive: Path, name: str) -> None:
    path = PurePosixPath(name.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts or os.path.splitdrive(name)[0] or "\0" in name:
        raise ValueError(f"{archive} holds {name!r}, which points outside its folder: it is not unpacked")
