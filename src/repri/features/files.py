"""Files of tensors that are kept on disk: checked when read, written whole or not at all, within a budget."""

from __future__ import annotations

import os
import zlib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from repri.runtime.errors import RepriError
from repri.runtime.files import atomic

__all__ = ["TensorFiles", "default_budget"]

CHECKSUM = "checksum"
"""Key of the checksum in a file's metadata."""


def default_budget() -> int:
    """Bytes that features may take on disk: REPRI_STORE_GB gigabytes, or 50 by default."""
    text = os.environ.get("REPRI_STORE_GB", "50")
    try:
        return int(float(text) * 1e9)
    except (ValueError, OverflowError):
        raise RepriError(f"REPRI_STORE_GB must be a number of gigabytes, got {text!r}.") from None


class TensorFiles:
    """Files below one folder, each with named tensors; any number of processes may read and write at once.

    Args:
        root: The folder whose files share the budget.
        folder: The folder of these files, below ``root``.
        budget: Bytes that all files below ``root`` may take; default: :func:`default_budget`.

    Example:
        >>> import tempfile
        >>> files = TensorFiles(Path(tempfile.mkdtemp()), "a")
        >>> files.write("image", {"x": torch.ones(2)})
        >>> files.read("image"), files.read("other")
        ({'x': tensor([1., 1.])}, None)
    """

    def __init__(self, root: Path, folder: str, budget: int | None = None):
        self.root, self.folder = root, root / folder
        self.budget = default_budget() if budget is None else budget
        self._known_size: int | None = None
        self._written = 0

    def path(self, name: str) -> Path:
        """The file of a name."""
        return self.folder / name[:2] / f"{name}.safetensors"

    def read(self, name: str) -> dict[str, Tensor] | None:
        """The tensors of a file, or None if it is not there or damaged."""
        file = self.path(name)
        try:
            with safe_open(file, "pt") as content:
                tensors = {key: content.get_tensor(key) for key in sorted(content.keys())}
                said = content.metadata() or {}
        except (OSError, SafetensorError):
            return None
        if said.get(CHECKSUM, said.get("crc")) != _checksum(tensors, CHECKSUM in said):
            file.unlink(missing_ok=True)
            return None
        with suppress(OSError):  # another process may have made room
            os.utime(file)  # the least recently used ones do
        return tensors

    def write(self, name: str, tensors: Mapping[str, Tensor]) -> None:
        """Write a file; :meth:`make_room` comes first."""
        whole = {key: tensors[key].contiguous() for key in sorted(tensors)}
        with atomic(self.path(name)) as temporary:
            temporary.write_bytes(save(whole, {CHECKSUM: _checksum(whole)}))

    def make_room(self, wanted: int, keep: set[Path]) -> None:
        """Remove the least recently used files, of any folder below the root, until the budget holds."""
        if self._known_size is None or self._written > self.budget / 20 or self._known_size + wanted > self.budget:
            files = []
            for file in self.root.rglob("*.safetensors"):
                with suppress(FileNotFoundError):  # another process has just removed it
                    stat = file.stat()
                    files.append((stat.st_mtime, stat.st_size, file))
            self._known_size, self._written = sum(size for _, size, _ in files), 0
            for _, size, file in sorted(files):
                if self._known_size + wanted <= self.budget:
                    break
                if file not in keep:
                    file.unlink(missing_ok=True)
                    self._known_size -= size
        self._known_size += wanted
        self._written += wanted


def _checksum(tensors: Mapping[str, Tensor], kinds: bool = True) -> str:
    """Depends on the values, and with ``kinds`` on their types and shapes, because the same bytes can be read as other
    numbers. Files of earlier versions are without."""
    value = 0
    for name in sorted(tensors):
        tensor = tensors[name]
        if kinds:
            value = zlib.crc32(f"{name} {tensor.dtype} {list(tensor.shape)}".encode(), value)
        value = zlib.crc32(memoryview(tensor.contiguous().view(torch.uint8).numpy()), value)
    return str(value)
