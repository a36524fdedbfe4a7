"""Which pictures are meant: one, a folder, a pattern, a list."""

from __future__ import annotations

import glob
import hashlib
from collections.abc import Sequence
from pathlib import Path

from .images import IMAGE_SUFFIXES

__all__ = ["find_queries", "same_files"]


def find_queries(text: str) -> dict[str, Path]:
    """Name → file, sorted. Names are file names without their suffix; within a folder, with its folders before them.

    ``text``: a picture; a folder, with all below it; a pattern with * or ?; a .txt of one path a line, relative to it.
    """
    path = Path(text).expanduser()
    if path.is_dir():
        files = sorted(p for p in path.rglob("*") if _is_picture(p) and not _hidden(p, path))
        named = [(p.relative_to(path).with_suffix("").as_posix(), p) for p in files]
        problem = f"{path} holds no pictures ({', '.join(IMAGE_SUFFIXES)})"
    elif path.is_file() and path.suffix.lower() == ".txt":
        try:
            lines = [line.strip() for line in path.read_text(encoding="utf-8-sig").splitlines()]
        except UnicodeDecodeError:
            raise ValueError(f"{path} is not text in UTF-8: save it so, with one path a line") from None
        files = [path.parent / line for line in lines if line and not line.startswith("#")]
        named, problem = [(p.stem, p) for p in files], f"{path} names no pictures"
    elif path.is_file():
        named, problem = [(path.stem, path)], ""
    elif any(mark in text for mark in "*?["):
        files = sorted(Path(p) for p in glob.glob(str(path), recursive=True) if _is_picture(Path(p)))
        named, problem = [(p.stem, p) for p in files], f"no picture matches {text}"
    else:
        named, problem = [], f"{text} does not exist: give a picture, a folder, a pattern or a .txt list"
    if not named:
        raise ValueError(problem)
    found: dict[str, Path] = {}
    for name, file in named:
        if name in found and found[name] != file:
            raise ValueError(f"{found[name]} and {file} would both be written as {name!r}: rename one of them")
        found[name] = file
    return found


def same_files(queries: dict[str, Path], others: Sequence[Path]) -> list[str]:
    """Names of the queries whose content is that of one of the other files."""
    known: dict[int, set[bytes]] = {}
    for path in others:
        content = path.read_bytes()
        known.setdefault(len(content), set()).add(hashlib.sha256(content).digest())
    found = []
    for name, path in queries.items():
        try:
            alike = known.get(path.stat().st_size)
            if alike and hashlib.sha256(path.read_bytes()).digest() in alike:
                found.append(name)
        except OSError:  # whoever reads it will say so
            continue
    return found


def _is_picture(path: Path) -> bool:
    return path.suffix.lower() in IMAGE_SUFFIXES and path.is_file()


def _hidden(path: Path, root: Path) -> bool:
    return any(part.startswith(".") for part in path.relative_to(root).parts)
