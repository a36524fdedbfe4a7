"""A data set: images with masks of class ids, the names of the classes, and the folds over them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np

from repri.data.io.images import read_image, upright_size
from repri.data.io.masks import IGNORE, MaskKind, check_same_size, mask_type, read_mask
from repri.runtime.errors import RepriError

__all__ = ["Dataset", "Sample", "Source"]


class Sample(NamedTuple):
    """One image and the place of its mask."""

    id: str
    """The image's file name without its suffix; it begins with the folder where names repeat."""
    image: Path
    mask: Path | None
    """File of the mask; None if the mask is drawn from annotations."""
    class_id: int | None = None
    """The class that a two-level mask shows, if the place of the file tells it."""


class Source(NamedTuple):
    """Masks that are not files but are drawn when they are asked for."""

    draw: Callable[[str], np.ndarray]
    """Id of a sample → [H, W] class ids."""
    fingerprint: str
    """Changes when the annotations change."""


@dataclass(frozen=True)
class Dataset:
    """The images, masks, classes and folds of one split."""

    name: str
    split: str
    root: Path
    """Folder of the data set."""
    classes: Mapping[int, str]
    """Class id → name."""
    samples: tuple[Sample, ...]
    folds: tuple[tuple[int, ...], ...]
    """Ids of the classes that each fold tests."""
    masks: MaskKind = "index"
    """What the values of the mask files mean."""
    colours: Mapping[tuple[int, int, int], int] | None = None
    """(r, g, b) → class id, for masks that are painted."""
    source: Source | None = None
    """Draws the masks, if they are not files."""
    mask_folder: Path | None = None
    """Folder in which every mask must belong to an image, if there is one."""
    class_files: Mapping[int, frozenset[str]] | None = None
    """Class → ids of samples with enough pixels of it, if the data set brings such lists
    (:func:`repri.data.datasets.index.class_lists`)."""

    def __len__(self) -> int:
        return len(self.samples)

    @cached_property
    def position(self) -> dict[str, int]:
        """Position of each sample by its id."""
        return {sample.id: i for i, sample in enumerate(self.samples)}

    def __getitem__(self, id: str) -> Sample:
        try:
            return self.samples[self.position[id]]
        except KeyError:
            raise RepriError(f"{self.name} {self.split} has no image {id!r} (root {self.root})") from None

    def image(self, id: str) -> np.ndarray:
        """Read an image.

        Args:
            id: Id of the sample.

        Returns:
            [H, W, 3] uint8, RGB.
        """
        return read_image(self[id].image)

    def mask(self, id: str) -> np.ndarray:
        """Read or draw the mask of an image, and check that it has the image's size.

        Args:
            id: Id of the sample.

        Returns:
            [H, W] class ids.
        """
        return self._mask_of(id, upright_size(self[id].image))

    def pair(self, id: str) -> tuple[np.ndarray, np.ndarray]:
        """Read an image and its mask, which have the same size.

        Args:
            id: Id of the sample.

        Returns:
            [H, W, 3] uint8 and [H, W] class ids.
        """
        image = self.image(id)
        return image, self._mask_of(id, image.shape[:2])

    def annotation(self, id: str) -> np.ndarray:
        """Read or draw the mask of an image without looking at the image.

        Args:
            id: Id of the sample.

        Returns:
            [H, W] class ids.
        """
        sample = self[id]
        if self.source is not None:
            return self.source.draw(id)
        assert sample.mask is not None
        if not sample.mask.is_file():
            raise RepriError(f"{sample.image} has no mask: {sample.mask} does not exist; add it or leave the image out")
        mask = read_mask(sample.mask, self.masks, self.colours)
        return mask if sample.class_id is None else _as_class(mask, sample.class_id)

    def _mask_of(self, id: str, size: tuple[int, ...]) -> np.ndarray:
        """The mask of an image whose size is known."""
        sample, mask = self[id], self.annotation(id)
        check_same_size(size, mask, sample.image, sample.mask or f"the annotation of {id}")
        return mask

    def novel(self, fold: int) -> tuple[int, ...]:
        """Return the ids of the classes that a fold tests."""
        if fold not in range(len(self.folds)):
            raise RepriError(f"{self.name} has the folds 0 to {len(self.folds) - 1}, not {fold}")
        return self.folds[fold]


def _as_class(mask: np.ndarray, id: int) -> np.ndarray:
    """Give the object of a two-level mask the id of its class."""
    out = np.zeros(mask.shape, mask_type(id))
    out[(mask > 0) & (mask != IGNORE)] = id
    out[mask == IGNORE] = IGNORE
    return out
