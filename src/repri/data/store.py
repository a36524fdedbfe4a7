"""Features that are computed once: one file per image, half precision, checked when read.

A file is named by the image's content and lies in a folder named by what was done to it (resize rule, extractor,
weights), so that the same picture in two data sets is computed once and nothing stale is ever found. Files are
written whole or not at all; any number of processes may read and write at once.
"""

from __future__ import annotations

import hashlib
import os
import threading
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from repri.files import atomic, cache_folder

from .images import read_image
from .parallel import parallel
from .resize import Geometry, ResizeRule, geometry, resize_image

__all__ = ["Extractor", "FeatureStore", "default_budget"]

RECENT = 300_000_000
"""Bytes of features that were read last and are kept in memory."""


class Extractor(Protocol):
    """What the store needs of a feature extractor (see ``repri.models``)."""

    name: str
    stride: int
    strided: bool

    @property
    def rule(self) -> Any: ...
    @property
    def fingerprint(self) -> str: ...
    def extract(self, images: Tensor) -> Tensor: ...


def default_budget() -> int:
    """Bytes that features may take on disk: REPRI_STORE_GB, else 50 GB."""
    text = os.environ.get("REPRI_STORE_GB", "50")
    try:
        return int(float(text) * 1e9)
    except ValueError:
        raise ValueError(f"REPRI_STORE_GB must be a number of gigabytes, got {text!r}") from None


class FeatureStore:
    """Features of images under one resize rule and one extractor."""

    def __init__(
        self,
        extractor: Extractor,
        rule: ResizeRule = "clean",
        size: int | None = None,
        folder: Path | None = None,
        budget: int | None = None,
        precision: torch.dtype = torch.float16,
    ):
        self.extractor, self.rule = extractor, rule
        self.size = extractor.rule.size if size is None else size
        self.multiple = extractor.rule.multiple if extractor.rule.multiple > 1 or rule == "clean" else None
        if rule != "clean" and self.multiple and self.size % self.multiple:
            raise ValueError(
                f"{extractor.name} takes multiples of {self.multiple} and the rule {rule} pads to {self.size}: "
                f"use {self.size // self.multiple * self.multiple} or {-(-self.size // self.multiple) * self.multiple}"
            )
        self.precision = precision
        self.root = (cache_folder() if folder is None else folder) / "features"
        facts = (extractor.fingerprint, rule, self.size, self.multiple, str(precision))
        self.folder = self.root / hashlib.sha256(repr(facts).encode()).hexdigest()[:24]
        self.budget = default_budget() if budget is None else budget
        self._names: dict[Path, str] = {}
        self._recent: OrderedDict[Path, Tensor] = OrderedDict()
        self._lock = threading.Lock()

    def geometry(self, original: tuple[int, int]) -> Geometry:
        """Where the rule takes a picture of a given size."""
        return geometry(original, self.rule, self.size, self.multiple)

    def prepare(
        self,
        images: Sequence[Path],
        progress: Callable[[int, int], None] | None = None,
        batch: int = 1,
        share: Callable[[list[Path]], list[Path]] = list,
    ) -> int:
        """Compute what is missing; returns how many images that were.

        ``share``: which of the images this process computes, of several that fill the store together; none of
        the others' makes room.
        """
        mine = share(list(images))
        missing = [path for path in mine if not self._is_here(path)]
        done, total = len(mine) - len(missing), len(mine)
        if progress:
            progress(done, total)
        kept = {self._file(path) for path in images}
        waiting: dict[tuple[int, int], list[tuple[Path, Tensor]]] = {}
        for path, image in parallel(self._load, missing, ahead=2):
            group = waiting.setdefault((image.shape[1], image.shape[2]), [])
            group.append((path, image))
            if len(group) >= batch:
                done += self._compute(waiting.pop((image.shape[1], image.shape[2])), kept, len(images))
                if progress:
                    progress(done, total)
        for group in waiting.values():
            done += self._compute(group, kept, len(images))
            if progress:
                progress(done, total)
        return len(missing)

    def get(self, path: Path) -> Tensor:
        """[C, h, w] of an image, computed if it is not here or damaged. Not to be changed in place."""
        with self._lock:
            if path in self._recent:
                self._recent.move_to_end(path)
                return self._recent[path]
        found = self._get(path)
        with self._lock:
            self._recent[path] = found
            while len(self._recent) * found.numel() * found.element_size() > RECENT:
                self._recent.popitem(last=False)
        return found

    def _get(self, path: Path) -> Tensor:
        found = self._read(self._file(path))
        if found is None:
            self._compute([self._load(path)], set(), 1)
            found = self._read(self._file(path))
        if found is None:
            raise ValueError(f"the features of {path} cannot be kept in {self.folder}: is the disk full?")
        return found

    def _load(self, path: Path) -> tuple[Path, Tensor]:
        image = read_image(path)
        return path, resize_image(image, self.geometry((image.shape[0], image.shape[1])))

    def _compute(self, group: Iterable[tuple[Path, Tensor]], keep: set[Path], images: int) -> int:
        paths, pictures = zip(*group, strict=True)
        features = self.extractor.extract(torch.stack(pictures)).to(self.precision).cpu()
        if not features.isfinite().all():
            raise ValueError(f"{self.extractor.name} gives NaN or infinity for {paths[0]}: it cannot be used")
        each = features[0].numel() * features.element_size()
        if each * images > self.budget:
            raise ValueError(
                f"features of {images} images take {each * images / 1e9:.1f} GB, the store may hold "
                f"{self.budget / 1e9:.1f} GB: set REPRI_STORE_GB, or take fewer tasks or layers"
            )
        self._make_room(each * len(paths), keep)
        for path, feature in zip(paths, features, strict=True):
            feature = feature.contiguous()
            with atomic(self._file(path)) as temporary:
                save_file({"features": feature}, temporary, {"crc": str(_checksum(feature))})
        return len(paths)

    def _is_here(self, path: Path) -> bool:
        """Whether a whole, undamaged file is there."""
        return self._read(self._file(path)) is not None

    def _read(self, file: Path) -> Tensor | None:
        try:
            with safe_open(file, "pt") as content:
                features = content.get_tensor("features")
                whole = (content.metadata() or {}).get("crc") == str(_checksum(features))
        except (OSError, SafetensorError):
            return None
        if not whole:
            file.unlink(missing_ok=True)
            return None
        os.utime(file)  # the least recently used ones make room
        return features

    def _file(self, path: Path) -> Path:
        if path not in self._names:
            try:
                self._names[path] = hashlib.sha256(path.read_bytes()).hexdigest()[:40]
            except OSError as error:
                raise ValueError(f"cannot read the image {path}: {error.strerror}") from None
        name = self._names[path]
        return self.folder / name[:2] / f"{name}.safetensors"

    def _make_room(self, wanted: int, keep: set[Path]) -> None:
        """Remove the least recently used files, of any extractor, until the budget holds."""
        if self._known_size is None or self._known_size + wanted > self.budget:
            files = [(f.stat().st_mtime, f.stat().st_size, f) for f in self.root.rglob("*.safetensors") if f.is_file()]
            self._known_size = sum(size for _, size, _ in files)
            for _, size, file in sorted(files):
                if self._known_size + wanted <= self.budget:
                    break
                if file not in keep:
                    file.unlink(missing_ok=True)
                    self._known_size -= size
        self._known_size += wanted

    _known_size: int | None = None
    """Bytes of the whole store, as far as this process knows."""


def _checksum(features: Tensor) -> int:
    return zlib.crc32(memoryview(features.contiguous().view(torch.uint8).numpy()))
