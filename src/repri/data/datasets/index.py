"""How many pixels of each class each image holds: counted once and kept in the cache."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np

from repri.data.io.masks import IGNORE
from repri.runtime.errors import RepriError
from repri.runtime.files import atomic, cache_folder
from repri.runtime.parallel import parallel

from .dataset import Dataset, Sample

__all__ = ["MIN_PIXELS", "ClassIndex", "class_index", "class_lists", "data_fingerprint"]

MIN_PIXELS = 2 * 32 * 32
"""An image counts for a class if it has at least this many pixels of it at its original resolution."""


class ClassIndex(NamedTuple):
    """The pixels of each class in each image."""

    classes: tuple[int, ...]
    """Class id of each column."""
    counts: np.ndarray
    """[images, classes] int64, images in the data set's order."""
    fingerprint: str
    """Fingerprint of the data that was counted."""
    min_pixels: int = MIN_PIXELS
    """Pixels of a class that an image needs to count for it."""

    def of(self, class_id: int) -> np.ndarray:
        """Return the pixels of one class, [images]."""
        return self.counts[:, self.classes.index(class_id)]


def data_fingerprint(dataset: Dataset) -> str:
    """Return a hash that changes with the samples, the classes, and the place, size and time of every mask file.

    Args:
        dataset: The data set, whose mask files must exist.

    Returns:
        64 hexadecimal digits.
    """
    digest = hashlib.sha256(repr((sorted(dataset.classes.items()), dataset.masks, dataset.colours)).encode())
    if dataset.source is not None:
        digest.update(dataset.source.fingerprint.encode())
    for sample in dataset.samples:
        digest.update(f"{sample.id}\0{sample.class_id}\0".encode())
        if sample.mask is not None:
            try:
                stat = sample.mask.stat()
            except OSError:
                raise RepriError(f"{sample.mask}, the mask of {sample.image.name}, does not exist") from None
            digest.update(f"{sample.mask.absolute()} {stat.st_size} {stat.st_mtime_ns}\0".encode())
    return digest.hexdigest()


def class_index(
    dataset: Dataset,
    min_pixels: int = MIN_PIXELS,
    workers: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> ClassIndex:
    """Count the pixels of every class in every mask, or take the counts from the cache.

    Args:
        dataset: The data set.
        min_pixels: Pixels of a class that an image needs to count for it.
        workers: Number of threads that read masks. None: one for each core.
        progress: Called with the number of masks that are counted and the number of all.

    Returns:
        The counts.
    """
    fingerprint = data_fingerprint(dataset)
    path = cache_folder() / "index" / f"{fingerprint[:32]}.index"
    classes = tuple(dataset.classes)
    shape = (len(dataset), len(classes))
    kept = _read(path, shape, fingerprint)
    if kept is not None:
        return ClassIndex(classes, kept, fingerprint, min_pixels)
    counts = np.empty((len(dataset), len(classes)), np.int64)
    for i, row in enumerate(parallel(lambda sample: _count(dataset, sample), dataset.samples, workers)):
        counts[i] = row
        if progress:
            progress(i + 1, len(dataset))
    with suppress(ValueError), atomic(path) as temporary:  # a cache that cannot be written costs only time
        temporary.write_bytes(_checksum(counts, fingerprint) + counts.astype("<i8").tobytes())
    return ClassIndex(classes, counts, fingerprint, min_pixels)


def _checksum(counts: np.ndarray, fingerprint: str) -> bytes:
    """32 bytes that depend on the counts, on their shape and on the data that was counted."""
    return hashlib.sha256(f"{counts.shape} {fingerprint}".encode() + counts.astype("<i8").tobytes()).digest()


def _read(path: Path, shape: tuple[int, int], fingerprint: str) -> np.ndarray | None:
    """The counts in the cache; None if there are none, or if the file is damaged."""
    size = 32 + 8 * shape[0] * shape[1]
    try:
        if path.stat().st_size != size:
            return None
        content = path.read_bytes()
    except OSError:
        return None
    if len(content) != size:
        return None
    counts = np.frombuffer(content[32:], "<i8").reshape(shape).astype(np.int64)
    return counts if content[:32] == _checksum(counts, fingerprint) else None


def _count(dataset: Dataset, sample: Sample) -> np.ndarray:
    """Count the pixels of each class in one mask; an id that is no class is an error."""
    histogram = np.bincount(dataset.mask(sample.id).ravel(), minlength=max(dataset.classes) + 1)
    unknown = set(np.nonzero(histogram)[0].tolist()) - {0, IGNORE} - set(dataset.classes)
    if unknown:
        raise RepriError(
            f"{sample.mask or sample.id} holds the class id {min(unknown)}, which {dataset.name} does not have: "
            f"`repri data verify` names every such file"
        )
    return histogram[list(dataset.classes)]


def class_lists(dataset: Dataset, index: ClassIndex) -> dict[int, tuple[str, ...]]:
    """List the images that count for each class.

    A reduced copy of a data set may bring its own lists, made with :data:`MIN_PIXELS` at the original resolution; they
    then replace the counts.

    Args:
        dataset: The data set.
        index: Its counts, with the pixels that an image needs.

    Returns:
        Class → ids of the images with enough of it, in the data set's order.
    """
    if dataset.class_files is not None and index.min_pixels == MIN_PIXELS:
        files = dataset.class_files
        return {c: tuple(s.id for s in dataset.samples if s.id in files.get(c, ())) for c in dataset.classes}
    ids = [sample.id for sample in dataset.samples]
    return {c: tuple(ids[i] for i in np.nonzero(index.of(c) >= index.min_pixels)[0]) for c in dataset.classes}
