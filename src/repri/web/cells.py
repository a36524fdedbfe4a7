"""Cells of the images of a project: computed once for each image, kept on disk, the last ones in memory."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Generic, TypeVar

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from repri.runtime.errors import RepriError
from repri.runtime.files import atomic
from repri.segmenter.look import Look, Seen

from .project import Project

__all__ = ["Cells", "Recent"]

T = TypeVar("T")
MEMORY = 300_000_000
"""Bytes of cells that were used last and stay in memory."""


class Recent(Generic[T]):
    """The values that were used last, as far as they fit.

    Args:
        most: Sum of their sizes.
        size: Size of a value.

    Example:
        >>> recent = Recent(5, len)
        >>> recent["a"], recent["b"] = "xxx", "yyy"
        >>> recent.get("a"), recent.get("b")
        (None, 'yyy')
    """

    def __init__(self, most: int, size: Callable[[T], int]):
        self._most, self._size, self._total = most, size, 0
        self._values: OrderedDict[object, T] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: object) -> T | None:
        """The value, or None."""
        with self._lock:
            if key not in self._values:
                return None
            self._values.move_to_end(key)
            return self._values[key]

    def __setitem__(self, key: object, value: T) -> None:
        with self._lock:
            if key in self._values:
                self._total -= self._size(self._values.pop(key))
            self._values[key] = value
            self._total += self._size(value)
            while self._total > self._most and len(self._values) > 1:
                self._total -= self._size(self._values.popitem(last=False)[1])

    def forget(self, key: object) -> None:
        """Remove a value, if it is there."""
        with self._lock:
            if key in self._values:
                self._total -= self._size(self._values.pop(key))


class Cells:
    """Looks at images that are kept.

    Args:
        project: The project.
        memory: Bytes that stay in memory.
    """

    def __init__(self, project: Project, memory: int = MEMORY):
        self._project = project
        self._recent: Recent[Seen] = Recent(memory, _bytes)

    def has(self, id: str, look: Look) -> bool:
        """Whether the cells of an image are there; files are not opened."""
        return self._recent.get((id, look.size)) is not None or self._file(id, look).is_file()

    def get(self, id: str, look: Look) -> Seen:
        """The cells of an image; the same as ``look.see(image)``, to the bit."""
        key = (id, look.size)
        seen = self._recent.get(key)
        if seen is None:
            file = self._file(id, look)
            seen = self._read(id, file, look)
            if seen is None:
                seen = look.see(self._project.pixels(id))
                self._write(file, seen, look)
            self._recent[key] = seen
        return seen

    def _file(self, id: str, look: Look) -> Path:
        """A name that changes with the image, the extractor and the size."""
        stat = self._project.image(id).path.stat()
        facts = (look.extractor.fingerprint, look.size, stat.st_size, stat.st_mtime_ns)
        return self._project.state("cells", f"{id}-{hashlib.sha256(repr(facts).encode()).hexdigest()[:16]}.safetensors")

    def _read(self, id: str, file: Path, look: Look) -> Seen | None:
        try:
            with safe_open(file, "pt") as content:
                names = list(content.keys())
                tensors: dict[str, Tensor] = {name: content.get_tensor(name) for name in names}
            return look.recall(self._project.size(id), tensors["features"], tensors.get("white"))
        except (OSError, SafetensorError, KeyError):
            return None  # not there, or damaged: it is computed again

    def _write(self, file: Path, seen: Seen, look: Look) -> None:
        tensors = {"features": seen.features.contiguous()}
        if look.extractor.whitening is None:  # another network had to judge
            tensors["white"] = seen.white.contiguous()
        with suppress(RepriError), atomic(file) as temporary:  # a full disk only costs time
            temporary.write_bytes(save(tensors))


def _bytes(seen: Seen) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in (seen.features, seen.white))
