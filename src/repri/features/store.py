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
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from repri.data.io.images import read_image
from repri.runtime.files import atomic, cache_folder
from repri.runtime.parallel import parallel

from .view import Geometry, ResizeRule, geometry, resize_image

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
    @property
    def identity(self) -> str: ...
    def extract(self, images: Tensor) -> Tensor: ...


@runtime_checkable
class Headed(Protocol):
    """An extractor that is another one with something on top."""

    under: Extractor
    rounds: bool
    """Whether stored features of ``under``, in half precision, are as good as new ones."""

    def finish(self, features: Tensor) -> Tensor: ...


def default_budget() -> int:
    """Bytes that features may take on disk: REPRI_STORE_GB, else 50 GB."""
    text = os.environ.get("REPRI_STORE_GB", "50")
    try:
        return int(float(text) * 1e9)
    except (ValueError, OverflowError):
        raise ValueError(f"REPRI_STORE_GB must be a number of gigabytes, got {text!r}") from None


class Input(NamedTuple):
    """What the features of an image are made of."""

    path: Path
    tensor: Tensor
    """[3, H, W] the picture, or [C, h, w] what is ``halfway``."""
    halfway: bool
    """Whether it is what the extractor's frozen part made of the picture."""


class FeatureStore:
    """Features of images under one resize rule and one extractor.

    Where an extractor is another one with a head (``under``), and the other's features are here (training put them
    here, say), they are taken: the heads of four folds need one pass of their backbone.
    """

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
        headed = isinstance(extractor, Headed) and extractor.rounds
        self._under = FeatureStore(extractor.under, rule, self.size, folder, budget) if headed else None
        facts = (extractor.fingerprint, rule, self.size, self.multiple, str(precision))
        self.folder = self.root / hashlib.sha256(repr(facts).encode()).hexdigest()[:24]
        self.budget = default_budget() if budget is None else budget
        self._names: dict[Path, str] = {} if self._under is None else self._under._names
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
        most: int = 0,
    ) -> int:
        """Compute what is missing; returns how many images that were.

        ``share``: which of the images this process computes, of several that fill the store together; none of
        the others' makes room. ``most``: how many images there will be at once later on, if more, so that a budget
        that is too small is noticed now.
        """
        mine, most = share(list(images)), max(most, len(images))
        missing = [path for path in mine if not self._is_here(path)]
        done, total = len(mine) - len(missing), len(mine)
        if progress:
            progress(done, total)
        stores = [store for store in (self, self._under) if store is not None]
        kept = {store._file(path) for store in stores for path in images}
        waiting: dict[tuple[int, ...], list[Input]] = {}
        for made_of in parallel(self._load, missing, ahead=2):
            kind = (made_of.halfway, *made_of.tensor.shape)
            group = waiting.setdefault(kind, [])
            group.append(made_of)
            if len(group) >= batch:
                done += self._compute(waiting.pop(kind), kept, most)
                if progress:
                    progress(done, total)
        for group in waiting.values():
            done += self._compute(group, kept, most)
            if progress:
                progress(done, total)
        return len(missing)

    def lacking(self, images: Sequence[Path]) -> list[Path]:
        """Those of the images, each once, that have no file here yet; whether a file is whole is not looked at."""
        return [path for path in dict.fromkeys(images) if not self._file(path).is_file()]

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

    def _load(self, path: Path) -> Input:
        before = None if self._under is None else self._under._read(self._under._file(path))
        if before is not None:
            return Input(path, before, True)
        image = read_image(path)
        return Input(path, resize_image(image, self.geometry((image.shape[0], image.shape[1]))), False)

    def _compute(self, group: Sequence[Input], keep: set[Path], images: int) -> int:
        paths, x = [made_of.path for made_of in group], torch.stack([made_of.tensor for made_of in group])
        below = None  # what the extractor under a head gives, if it is new: the heads of other folds will want it
        if self._under is None or not isinstance(self.extractor, Headed):
            features = self.extractor.extract(x)
        elif group[0].halfway:
            features = self.extractor.finish(x)
        else:
            below = self._under.extractor.extract(x)
            features = self.extractor.finish(below)
        features = features.to(self.precision).cpu()
        if not features.isfinite().all():
            other = "another extractor" if self.precision == torch.float32 else "single precision or another extractor"
            raise ValueError(f"{self.extractor.name} gives NaN or infinity for {paths[0]}: take {other}")
        each = features[0].numel() * features.element_size()
        if each * images > self.budget:
            raise ValueError(
                f"features of {images} images take {each * images / 1e9:.3g} GB, the store may hold "
                f"{self.budget / 1e9:.3g} GB: set REPRI_STORE_GB, or take fewer tasks or layers"
            )
        kept = [(self, features)]
        if self._under is not None and below is not None:
            below = below.to(self._under.precision).cpu()
            more = below[0].numel() * below.element_size()
            if (each + more) * images <= self.budget:
                kept.append((self._under, below))
                each += more
        self._make_room(each * len(paths), keep)
        for store, maps in kept:
            for path, feature in zip(paths, maps, strict=True):
                store._write(path, feature.contiguous())
        return len(paths)

    def _write(self, path: Path, feature: Tensor) -> None:
        with atomic(self._file(path)) as temporary:
            temporary.write_bytes(save({"features": feature}, {"crc": str(_checksum(feature))}))

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
        with suppress(OSError):  # another process may have made room
            os.utime(file)  # the least recently used ones do
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
        if self._known_size is None or self._written > self.budget / 20 or self._known_size + wanted > self.budget:
            files = []
            for file in self.root.rglob("*.safetensors"):
                with suppress(FileNotFoundError):  # another process has just removed it
                    found = file.stat()
                    files.append((found.st_mtime, found.st_size, file))
            self._known_size, self._written = sum(size for _, size, _ in files), 0
            for _, size, file in sorted(files):
                if self._known_size + wanted <= self.budget:
                    break
                if file not in keep:
                    file.unlink(missing_ok=True)
                    self._known_size -= size
        self._known_size += wanted
        self._written += wanted

    _known_size: int | None = None
    """Bytes of the whole store, as far as this process knows."""
    _written = 0
    """By this process since it last looked at what others did."""


def _checksum(features: Tensor) -> int:
    return zlib.crc32(memoryview(features.contiguous().view(torch.uint8).numpy()))
