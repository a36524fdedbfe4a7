"""The network's square input: where an image, its labels and its features lie on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from repri.features.extractor import FeatureExtractor, InputRule
from repri.features.grid import Grid
from repri.features.store import FeatureStore
from repri.features.view import Resize, View, resized

from .augment import Flip

__all__ = ["Square", "cells_on_corners", "labels_at_cells"]


@dataclass(frozen=True)
class Square:
    """How images of any shape are brought to one square, so that they fit into a batch."""

    resize: Resize
    """How an image is resized (``Protocol.resize``)."""
    size: int
    """Long side of the resized image."""
    rule: InputRule
    """The input that the network wants."""
    stride: int
    """Pixels between the cells of the network's features, which lie on pixels."""

    @property
    def side(self) -> int:
        """S: side of the square, a multiple of the number that the network wants."""
        return -(-self.size // self.rule.multiple) * self.rule.multiple

    def view(self, original: tuple[int, int]) -> View:
        """The square view of an image of some height and width."""
        multiple = self.rule.multiple if self.rule.multiple > 1 or self.resize == "aspect" else None
        content, full = resized(original, self.resize, self.size, multiple, square=True)
        cells = (-(-full[0] // self.stride), -(-full[1] // self.stride))
        return View(self.resize, original, content, full, Grid.of(cells, full, self.stride, on_pixels=True))

    def content(self, original: tuple[int, int]) -> tuple[int, int]:
        """Height and width of the part of the square that an image fills."""
        return self.view(original).content

    def pixels(self, image: np.ndarray) -> Tensor:
        """Image [H, W, 3] uint8 → [3, S, S], normalised."""
        mean, std = (torch.tensor(values).view(3, 1, 1) for values in (self.rule.mean, self.rule.std))
        return (self.view((image.shape[0], image.shape[1])).pixels(image) - mean) / std

    def labels(self, labels: np.ndarray) -> Tensor:
        """Labels [H, W] uint8 → [S, S], 255 in the padding."""
        return self.view((labels.shape[0], labels.shape[1])).mask(labels)

    def features(self, features: Tensor) -> Tensor:
        """Stored features [C, h, w] → [C, s, s]; the last row and column are repeated."""
        side = max(features.shape[-2:])
        missing = (0, side - features.shape[-1], 0, side - features.shape[-2])
        return F.pad(features[None], missing, mode="replicate")[0]

    def targets(self, features: Tensor, store: FeatureStore, original: tuple[int, int], flip: Flip) -> Tensor:
        """A teacher's features at the cells of this square.

        Args:
            features: [C, h, w] of the image as the teacher sees it.
            store: The store of the teacher's features.
            original: Height and width of the image.
            flip: How the image is flipped in the square; the features are those of the image as it is.

        Returns:
            [C, s, s], zero outside the image.
        """
        return store.view(original).resample(features, self.view(original), (flip.mirrored, flip.upside_down))


def labels_at_cells(labels: Tensor, cells: Sequence[int], extractor: FeatureExtractor) -> Tensor:
    """Labels of the pixels on which, or around which, an extractor's cells lie: [H, W] → [h, w].

    Args:
        labels: [H, W].
        cells: (h, w).
        extractor: The extractor, which tells the distance of its cells and whether they lie on pixels.

    Returns:
        [h, w]; cells that reach over the edge have the label of the last pixel.
    """
    pixels = (labels.shape[0], labels.shape[1])
    return Grid.of((cells[0], cells[1]), pixels, extractor.stride, extractor.on_pixels).sample(labels)


def cells_on_corners(side: int, stride: int) -> bool:
    """Whether the outer cells lie on the outer pixels of a square of ``side`` pixels."""
    cells = -(-side // stride)
    return Grid.of((cells, cells), (side, side), stride, on_pixels=False).on_pixels
