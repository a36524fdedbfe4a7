"""The network's square input: where an image, its labels and its features lie on it.

This is the only module of training that calls the functions of ``features.view``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from repri.data.io.images import IGNORE
from repri.features.extractor import InputRule
from repri.features.store import FeatureStore
from repri.features.view import Geometry, geometry, on_corners, resize_image, resize_mask

from .augment import Flip

__all__ = ["Square", "cells_on_corners", "labels_at_cells", "open_store"]

RULES: dict[str, Any] = {"aspect": "clean", "square": "paper", "letterbox": "official"}
"""Name of a protocol's resizing → name of the rule in ``features.view``."""


@dataclass(frozen=True)
class Square:
    """How images of any shape are brought to one square, so that they fit into a batch."""

    resize: str
    """How an image is resized (``Protocol.resize``)."""
    size: int
    """Long side of the resized image."""
    rule: InputRule
    """What the network wants of its input."""
    stride: int
    """Pixels between the cells of the network's features."""

    @property
    def side(self) -> int:
        """S: side of the square, a multiple of what the network wants."""
        return -(-self.size // self.rule.multiple) * self.rule.multiple

    def view(self, original: tuple[int, int]) -> Geometry:
        """How an image of a height and width is resized."""
        multiple = self.rule.multiple if self.rule.multiple > 1 or self.resize == "aspect" else None
        return geometry(original, RULES[self.resize], self.size, multiple)

    def content(self, original: tuple[int, int]) -> tuple[int, int]:
        """Height and width of the part of the square that an image fills."""
        return self.view(original).content

    def pixels(self, image: np.ndarray) -> Tensor:
        """Image [H, W, 3] uint8 → [3, S, S], normalised; the last row and column are repeated."""
        mean, std = (torch.tensor(values).view(3, 1, 1) for values in (self.rule.mean, self.rule.std))
        pixels = resize_image(image, self.view((image.shape[0], image.shape[1])))
        return _repeated((pixels - mean) / std, self.side)

    def labels(self, labels: np.ndarray) -> Tensor:
        """Labels [H, W] uint8 → [S, S], 255 in the padding."""
        resized = resize_mask(labels, self.view((labels.shape[0], labels.shape[1])))
        missing = (0, self.side - resized.shape[-1], 0, self.side - resized.shape[-2])
        return F.pad(resized, missing, value=IGNORE)

    def features(self, features: Tensor) -> Tensor:
        """Stored features [C, h, w] → [C, s, s]; the last row and column are repeated."""
        return _repeated(features, max(features.shape[-2:]))

    def targets(self, features: Tensor, store: FeatureStore, original: tuple[int, int], flip: Flip) -> Tensor:
        """A teacher's features at the cells of this square.

        Args:
            features: [C, h, w], whose cells tile the image as the teacher sees it.
            store: The store of the teacher's features.
            original: Height and width of the image.
            flip: How the image is flipped in the square; the features are of the image as it is.

        Returns:
            [C, s, s], zero outside the image.
        """
        theirs, content = store.geometry(original), self.content(original)
        axes = []
        for axis, flipped in ((0, flip.upside_down), (1, flip.mirrored)):
            fraction = (torch.arange(0, content[axis], self.stride) + 0.5) / content[axis]
            fraction = 1 - fraction if flipped else fraction
            axes.append(2 * fraction * theirs.content[axis] / theirs.full[axis] - 1)
        y, x = torch.meshgrid(*axes, indexing="ij")
        grid = torch.stack([x, y], -1)[None]
        inside = F.grid_sample(features[None], grid, mode="bilinear", padding_mode="border", align_corners=False)[0]
        cells = -(-self.side // self.stride)
        return F.pad(inside, (0, cells - inside.shape[-1], 0, cells - inside.shape[-2]))


def open_store(extractor: Any, resize: str, size: int | None) -> FeatureStore:
    """Where the features of a frozen network are kept."""
    return FeatureStore(extractor, RULES[resize], size)


def labels_at_cells(labels: Tensor, cells: Sequence[int], extractor: Any) -> Tensor:
    """Labels of the pixels on which, or around which, an extractor's cells lie: [H, W] → [h, w].

    Args:
        labels: [H, W].
        cells: (h, w).
        extractor: The extractor, which tells the distance of its cells and whether they lie on pixels.

    Returns:
        [h, w]; cells that hang over the edge have the label of the last pixel.
    """
    first = 0 if extractor.strided else extractor.stride // 2
    rows, columns = (
        (torch.arange(count) * extractor.stride + first).clamp_max(side - 1)
        for count, side in zip(cells, labels.shape, strict=True)
    )
    return labels[rows][:, columns]


def cells_on_corners(side: int, stride: int) -> bool:
    """Whether outer cells lie on the outer pixels of a square of ``side`` pixels."""
    cells = -(-side // stride)
    return on_corners((cells, cells), (side, side), stride)


def _repeated(x: Tensor, side: int) -> Tensor:
    """[C, h, w] → [C, side, side], the last row and column repeated."""
    return F.pad(x[None], (0, side - x.shape[-1], 0, side - x.shape[-2]), mode="replicate")[0]
