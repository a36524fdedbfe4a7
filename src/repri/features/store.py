"""Features that are computed once: one file per image, checked when read.

A file is named by the image's content and lies in a folder named by the extractor, its weights and the resize rule,
so that the same image in two data sets is computed once and nothing stale is ever read. Files are written whole or
not at all; any number of processes may read and write at once."""

from __future__ import annotations

import hashlib
import os
import threading
import zlib
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from repri.data.io.images import read_image
from repri.runtime.errors import RepriError
from repri.runtime.files import atomic, cache_folder, remove_leftovers
from repri.runtime.parallel import parallel

from .extractor import PRECISIONS, FeatureExtractor, rounded
from .view import Resize, View

__all__ = ["FeatureStore", "default_budget"]

RECENT = 300_000_000
"""Bytes of features that were read last and are kept in memory."""
CHECKSUM = "checksum"
"""Key of the checksum in a file's metadata; former versions wrote one of the values alone, as ``crc``."""
RULES = {"aspect": "clean", "square": "paper", "letterbox": "official"}
"""Resize rule → its name in the folders of the store; these must not change, or every stored feature is lost."""


@runtime_checkable
class Headed(Protocol):
    """An extractor that is another one with a head on top."""

    under: FeatureExtractor
    rounds: bool
    """Whether the head was trained on features of ``under`` in half precision, so that stored ones serve as well as
    new ones."""

    def finish(self, features: Tensor) -> Tensor:
        """Features of ``under`` → features of this extractor."""
        ...


def default_budget() -> int:
    """Bytes that features may take on disk: REPRI_STORE_GB gigabytes, or 50 by default."""
    text = os.environ.get("REPRI_STORE_GB", "50")
    try:
        return int(float(text) * 1e9)
    except (ValueError, OverflowError):
        raise RepriError(f"REPRI_STORE_GB must be a number of gigabytes, got {text!r}.") from None


class Input(NamedTuple):
    """The input from which the features of an image are computed."""

    path: Path
    tensor: Tensor
    """[3, H, W] pixels, or [C, h, w] stored features of the extractor under a head."""
    from_under: bool
    """Whether the tensor holds such features."""


class FeatureStore:
    """Features of images under one resize rule and one extractor.

    Where an extractor is another one with a head, and the features of the other are stored (by training, for
    example), they are used: the heads of four folds need one pass of their backbone.

    Args:
        extractor: The extractor.
        resize: How images are resized; a protocol decides it.
        size: Long side in pixels; default: the extractor's own.
        folder: Folder of the store; default: the user cache.
        budget: Bytes that the store may take on disk; default: :func:`default_budget`.
        precision: ``half`` or ``single``; a protocol decides it.
    """

    def __init__(
        self,
        extractor: FeatureExtractor,
        resize: Resize = "aspect",
        size: int | None = None,
        folder: Path | None = None,
        budget: int | None = None,
        precision: str = "half",
    ):
        self.extractor, self.resize, self.precision = extractor, resize, precision
        self.size = extractor.rule.size if size is None else size
        self.view((self.size, self.size))  # a size that does not fit is an error now
        multiple = extractor.rule.multiple if extractor.rule.multiple > 1 or resize == "aspect" else None
        self.root = (cache_folder() if folder is None else folder) / "features"
        headed = isinstance(extractor, Headed) and extractor.rounds
        self._under = FeatureStore(extractor.under, resize, self.size, folder, budget) if headed else None
        facts = (extractor.fingerprint, RULES[resize], self.size, multiple, str(PRECISIONS[precision]))
        self.folder = self.root / hashlib.sha256(repr(facts).encode()).hexdigest()[:24]
        self.budget = default_budget() if budget is None else budget
        self._names: dict[Path, str] = {} if self._under is None else self._under._names
        self._recent: OrderedDict[Path, Tensor] = OrderedDict()
        self._lock = threading.Lock()

    def view(self, original: tuple[int, int]) -> View:
        """How the extractor sees an image of some height and width."""
        return self.extractor.view(original, self.resize, self.size)

    def prepare(
        self,
        images: Sequence[Path],
        progress: Callable[[int, int], None] | None = None,
        mine: Callable[[list[Path]], list[Path]] = list,
        most: int = 0,
    ) -> int:
        """Compute the features that are missing.

        Args:
            images: The image files.
            progress: Called with the number of images that are done and their total.
            mine: Picks the images that this process computes, where several fill the store together. Room is never made
                by removing features of ``images``.
            most: Number of images that will be needed at once later, if more, so that a budget that is too small is
                noticed now.

        Returns:
            Number of images that were computed.
        """
        chosen, most = mine(list(images)), max(most, len(images))
        missing = [path for path in chosen if not self._is_here(path)]
        done, total = len(chosen) - len(missing), len(chosen)
        stores = [store for store in (self, self._under) if store is not None]
        keep = {store._file(path) for store in stores for path in images}
        remove_leftovers(self.folder, below=True)
        if progress:
            progress(done, total)
        for item in parallel(self._load, missing, ahead=2):
            self._compute(item, keep, most)
            done += 1
            if progress:
                progress(done, total)
        return len(missing)

    def lacking(self, images: Sequence[Path]) -> list[Path]:
        """The images, each once, that have no file here yet; files are not opened."""
        return [path for path in dict.fromkeys(images) if not self._file(path).is_file()]

    def get(self, path: Path) -> Tensor:
        """Features [C, h, w] of an image, computed if they are missing or damaged. Do not change them in place."""
        with self._lock:
            if path in self._recent:
                self._recent.move_to_end(path)
                return self._recent[path]
        features = self._get(path)
        with self._lock:
            self._recent[path] = features
            while len(self._recent) * features.numel() * features.element_size() > RECENT:
                self._recent.popitem(last=False)
        return features

    def _get(self, path: Path) -> Tensor:
        features = self._read(self._file(path))
        if features is None:
            self._compute(self._load(path), set(), 1)
            features = self._read(self._file(path))
        if features is None:
            raise RepriError(f"The features of {path} cannot be kept in {self.folder}: is the disk full?")
        return features

    def _load(self, path: Path) -> Input:
        before = None if self._under is None else self._under._read(self._under._file(path))
        if before is not None:
            return Input(path, before, True)
        image = read_image(path)
        return Input(path, self.view((image.shape[0], image.shape[1])).pixels(image), False)

    def _compute(self, item: Input, keep: set[Path], images: int) -> None:
        """Compute and write the features of one image; ``images`` will be needed at once, files in ``keep`` stay."""
        below = None  # new features of the extractor under the head: the heads of other folds will want them
        if self._under is None or not isinstance(self.extractor, Headed):
            features = self.extractor.extract(item.tensor[None])
        elif item.from_under:
            features = self.extractor.finish(item.tensor[None])
        else:
            below = self._under.extractor.extract(item.tensor[None])
            features = self.extractor.finish(below)
        try:
            features = rounded(features[0], self.precision, self.extractor)
        except RepriError as error:
            raise RepriError(f"{item.path}: {error}") from None
        size = features.numel() * features.element_size()
        if size * images > self.budget:
            raise RepriError(
                f"The features of {images} images take {size * images / 1e9:.3g} GB and the store may hold "
                f"{self.budget / 1e9:.3g} GB: set REPRI_STORE_GB, or use fewer tasks or layers."
            )
        written: list[tuple[FeatureStore, Tensor]] = [(self, features)]
        if self._under is not None and below is not None:
            below = rounded(below[0], self._under.precision, self._under.extractor)
            more = below.numel() * below.element_size()
            if (size + more) * images <= self.budget:
                written.append((self._under, below))
                size += more
        self._make_room(size, keep)
        for store, tensor in written:
            store._write(item.path, tensor.contiguous())

    def _write(self, path: Path, feature: Tensor) -> None:
        with atomic(self._file(path)) as temporary:
            temporary.write_bytes(save({"features": feature}, {CHECKSUM: _checksum(feature)}))

    def _is_here(self, path: Path) -> bool:
        """Whether a whole, undamaged file is there."""
        return self._read(self._file(path)) is not None

    def _read(self, file: Path) -> Tensor | None:
        try:
            with safe_open(file, "pt") as content:
                features = content.get_tensor("features")
                said = content.metadata() or {}
        except (OSError, SafetensorError):
            return None
        fits = features.ndim == 3 and features.dtype == PRECISIONS[self.precision]
        if CHECKSUM in said:
            whole = fits and said[CHECKSUM] == _checksum(features)
        else:
            whole = fits and len(features) == self.extractor.channels and said.get("crc") == str(_crc(features))
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
                raise RepriError(f"Cannot read the image {path}: {error.strerror}.") from None
        name = self._names[path]
        return self.folder / name[:2] / f"{name}.safetensors"

    def _make_room(self, wanted: int, keep: set[Path]) -> None:
        """Remove the least recently used files, of any extractor, until the budget holds."""
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

    _known_size: int | None = None
    """Bytes of the whole store, as far as this process knows."""
    _written = 0
    """By this process since it last looked at what others did."""


def _checksum(features: Tensor) -> str:
    """Depends on the values, on their type and on their shape: the same bytes can be read as other numbers."""
    return str(zlib.crc32(f"{features.dtype} {list(features.shape)}".encode(), _crc(features)))


def _crc(features: Tensor) -> int:
    return zlib.crc32(memoryview(features.contiguous().view(torch.uint8).numpy()))
