"""The images that a text means: one file, a folder, a pattern or a list."""

from __future__ import annotations

import glob
import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path

from repri.runtime.errors import RepriError
from repri.runtime.reading import check_regular

from .files import read_lines
from .images import IMAGE_SUFFIXES

__all__ = ["find_queries", "same_files"]


def find_queries(text: str) -> dict[str, Path]:
    """Find the query images that a text means.

    Args:
        text: An image; a folder, which is searched with all folders below it; a pattern with ``*`` or ``?``; or a
            .txt file with one path on each line, relative to the file.

    Returns:
        Name → file, sorted by file. The name is the file name without its suffix; for a folder it begins with the
        folders inside it (``day1/a``).
    """
    if not text.strip():
        raise RepriError("no images are named: give an image, a folder, a pattern or a .txt list")
    path = Path(text).expanduser()
    if path.is_dir():
        files = sorted(p for p in path.rglob("*") if _is_image(p) and not _hidden(p, path))
        return _unique(
            ((p.relative_to(path).with_suffix("").as_posix(), p) for p in files),
            f"{path} holds no images ({', '.join(IMAGE_SUFFIXES)})",
        )
    if path.is_file() and path.suffix.lower() == ".txt":
        lines = [line.strip() for line in read_lines(path)]
        if any("\0" in line for line in lines):
            raise RepriError(f"{path} holds a null character, which no file name has: write one path on each line")
        files = [path.parent / line for line in lines if line and not line.startswith("#")]
        return _unique(((p.stem, p) for p in files), f"{path} names no images: write one path on each line")
    if path.is_file():
        return {path.stem: path}
    if any(mark in text for mark in "*?["):
        files = sorted(Path(p) for p in glob.glob(str(path), recursive=True) if _is_image(Path(p)))
        return _unique(((p.stem, p) for p in files), f"no image matches {text}")
    if path.exists():
        check_regular(path)
    raise RepriError(f"{text} does not exist: give an image, a folder, a pattern or a .txt list")


def _unique(named: Iterable[tuple[str, Path]], problem: str) -> dict[str, Path]:
    """Gather files by name; two files of one name, or none at all, are an error."""
    files: dict[str, Path] = {}
    for name, file in named:
        if files.setdefault(name, file) != file:
            raise RepriError(f"{files[name]} and {file} would both be written as {name!r}: rename one of them")
    if not files:
        raise RepriError(problem)
    return files


def same_files(queries: dict[str, Path], others: Sequence[Path]) -> list[str]:
    """Find the queries that are copies of other files.

    Args:
        queries: Name → file. A file that cannot be read is passed over.
        others: The other files.

    Returns:
        Names of the queries whose content is that of one of the other files.
    """
    known: dict[int, set[bytes]] = {}
    for path in others:
        content = path.read_bytes()
        known.setdefault(len(content), set()).add(hashlib.sha256(content).digest())
    copies = []
    for name, path in queries.items():
        try:
            alike = known.get(path.stat().st_size)
            if alike and hashlib.sha256(path.read_bytes()).digest() in alike:
                copies.append(name)
        except OSError:  # the code that opens the image reports it
            continue
    return copies


def _is_image(path: Path) -> bool:
    """Tell whether a path is a file that is named as images are."""
    return path.suffix.lower() in IMAGE_SUFFIXES and path.is_file()


def _hidden(path: Path, root: Path) -> bool:
    """Tell whether a file or a folder between it and the root is hidden."""
    return any(part.startswith(".") for part in path.relative_to(root).parts)
