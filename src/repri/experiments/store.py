"""Where results of cells are kept: a folder to which they are written, and folders of results that came with us."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from repri.evaluation.results import FORMAT
from repri.runtime.errors import RepriError
from repri.runtime.files import atomic
from repri.runtime.reading import read_json

from .identity import key_of, result_identity

__all__ = ["CellStore", "Kept"]


@dataclass(frozen=True)
class Kept:
    """The result of one fold in a file."""

    path: Path
    fold: str
    result: dict[str, Any]
    """The whole file, in which other folds may be too."""

    @property
    def values(self) -> dict[str, Any]:
        """mIoU, interval and the rest of this fold."""
        return self.result["per_fold"][self.fold]


class CellStore:
    """Results of cells by what decides them.

    Args:
        folder: Folder to which new results are written.
        stored: Folders with result files that count too, such as ``results/`` of the repository.
    """

    def __init__(self, folder: Path, stored: Sequence[Path] = ()):
        self.folder, self.stored = folder, tuple(stored)

    @cached_property
    def _index(self) -> dict[str, list[Kept]]:
        """Key → results, those of our own folder first."""
        index: dict[str, list[Kept]] = {}
        for path in self._files():
            for kept in _folds_of(path):
                identity = result_identity(kept.result, kept.fold)
                if identity is not None:
                    index.setdefault(key_of(identity), []).append(kept)
        return index

    def _files(self) -> Iterable[Path]:
        for folder in (self.folder, *self.stored):
            if folder.is_dir():
                yield from sorted(folder.rglob("*.json"))

    def find(self, identity: Mapping[str, Any], tasks: str | None, files: str | None) -> Kept | None:
        """The result of a cell.

        Args:
            identity: What decides it.
            tasks: Hash of its task list; None: the data are not here, and any list of these settings counts.
            files: Hash of the data set's files; None: not known. Results that do not say which files they are of count.

        Returns:
            The result, or None.
        """
        for kept in self._index.get(key_of(identity), []):
            if tasks is not None and kept.values["tasks_hash"] != tasks:
                continue
            if files is not None and kept.result.get("data_files", files) != files:
                continue
            return kept
        return None

    def save(self, identity: Mapping[str, Any], label: str, result: dict[str, Any]) -> Kept:
        """Write the result of a cell, whole or not at all."""
        key, (fold,) = key_of(identity), result["per_fold"]
        name = re.sub(r"[^a-z0-9]+", "-", label.lower()).strip("-")
        path = self.folder / f"{name[:80]}-{key}.json"
        self.folder.mkdir(parents=True, exist_ok=True)
        with atomic(path) as temporary:
            temporary.write_text(json.dumps(result))
        kept = Kept(path, fold, result)
        self._index.setdefault(key, []).insert(0, kept)
        return kept


def _folds_of(path: Path) -> list[Kept]:
    """The folds of a result file; none of a file of another kind."""
    try:
        result = read_json(path)
    except RepriError as error:
        warnings.warn(f"{error} It is not used.", stacklevel=2)
        return []
    if not isinstance(result, dict) or result.get("format") != FORMAT:
        return []
    return [Kept(path, fold, result) for fold in result["per_fold"]]
