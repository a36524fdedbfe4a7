"""Features that are computed once: one file per image, checked when read.

A file is named by the image's content and lies in a folder named by the extractor, its weights and the resize rule,
so that the same image in two data sets is computed once and nothing stale is ever read. Files are written whole or
not at all; any number of processes may read and write at once."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

from torch import Tensor

from repri.data.io.images import read_image
from repri.runtime.errors import RepriError
from repri.runtime.files import cache_folder, remove_leftovers
from repri.runtime.parallel import parallel

from .extractor import PRECISIONS, FeatureExtractor, rounded
from .files import TensorFiles, default_budget
from .view import Resize, View

__all__ = ["FeatureStore", "default_budget"]

RECENT = 300_000_000
"""Bytes of features that were read last and are kept in memory."""
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
        headed = isinstance(extractor, Headed) and extractor.rounds
        self._under = FeatureStore(extractor.under, resize, self.size, folder, budget) if headed else None
        facts = (extractor.fingerprint, RULES[resize], self.size, multiple, str(PRECISIONS[precision]))
        root = (cache_folder() if folder is None else folder) / "features"
        self._files = TensorFiles(root, hashlib.sha256(repr(facts).encode()).hexdigest()[:24], budget)
        self.root, self.folder, self.budget = root, self._files.folder, self._files.budget
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
        features = self._read(path)
        if features is None:
            self._compute(self._load(path), set(), 1)
            features = self._read(path)
        if features is None:
            raise RepriError(f"The features of {path} cannot be kept in {self.folder}: is the disk full?")
        return features

    def _load(self, path: Path) -> Input:
        before = None if self._under is None else self._under._read(path)
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
        self._files.make_room(size, keep)
        for store, tensor in written:
            store._files.write(store._name(item.path), {"features": tensor})

    def _is_here(self, path: Path) -> bool:
        """Whether a whole, undamaged file is there."""
        return self._read(path) is not None

    def _read(self, path: Path) -> Tensor | None:
        tensors = self._files.read(self._name(path))
        features = None if tensors is None else tensors.get("features")
        if features is None or features.ndim != 3 or features.dtype != PRECISIONS[self.precision]:
            return None
        return features if len(features) == self.extractor.channels else None

    def _file(self, path: Path) -> Path:
        return self._files.path(self._name(path))

    def _name(self, path: Path) -> str:
        if path not in self._names:
            try:
                self._names[path] = hashlib.sha256(path.read_bytes()).hexdigest()[:40]
            except OSError as error:
                raise RepriError(f"Cannot read the image {path}: {error.strerror}.") from None
        return self._names[path]
