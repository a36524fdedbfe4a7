"""What is kept of a result: the mask and its figures."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from PIL import Image

from repri.segmenter.result import Segmentation

from .support import Support

__all__ = ["Maps", "Record", "Stage", "maps_of", "png", "thresholded"]

Stage = Literal["quick", "full"]
"""``quick``: settings are fixed, the answer comes at once. ``full``: the support has chosen them."""


@dataclass(frozen=True)
class Record:
    """The result of one image, without its maps."""

    version: int
    """Version of the annotations that it is of."""
    stage: Stage
    confidence: float
    """IoU that the probabilities themselves expect of the mask."""
    proportions: dict[str, float]
    """Class → π."""
    presences: dict[str, float]
    """Class → probability that the image shows it."""
    areas: dict[str, float]
    """Class → part of the image that the mask covers."""
    milliseconds: float
    """Time that it took."""
    png: bytes
    """The mask as a PNG of the project's labels."""

    @property
    def mask(self) -> np.ndarray:
        """[H, W] uint8 with the labels of the project."""
        return np.array(Image.open(io.BytesIO(self.png)))

    def content(self) -> dict[str, Any]:
        """The record as JSON has it."""
        return {
            "version": self.version,
            "stage": self.stage,
            "confidence": round(self.confidence, 4),
            "proportions": {name: round(value, 5) for name, value in self.proportions.items()},
            "presences": {name: round(value, 4) for name, value in self.presences.items()},
            "areas": {name: round(value, 5) for name, value in self.areas.items()},
            "milliseconds": round(self.milliseconds, 1),
        }


@dataclass(frozen=True, eq=False)
class Maps:
    """The maps of one result at the image's own size."""

    record: Record
    mask: np.ndarray
    """[H, W] uint8 with the labels of the project."""
    probabilities: dict[int, np.ndarray]
    """Label → [H, W] uint8, probability times 255."""


def thresholded(result: Segmentation, threshold: float) -> np.ndarray:
    """The mask [H, W] of a result, where a class must be more likely against the background than usual, or less.

    Args:
        result: The result.
        threshold: Probability from which on a pixel belongs to a class; 0.5 leaves the mask as it is.

    Returns:
        [H, W] uint8.
    """
    if threshold == 0.5:
        return result.mask
    values = np.stack(list(result.probabilities.values()))
    best, rest = values.max(0), np.clip(1 - values.sum(0), 0, 1)
    shown = best * (1 - threshold) > rest * threshold
    return np.where(shown, values.argmax(0) + 1, 0).astype(np.uint8)


def maps_of(
    result: Segmentation, support: Support, threshold: float, version: int, stage: Stage, milliseconds: float
) -> Maps:
    """What is kept of a result."""
    mask = thresholded(result, threshold)
    areas = {name: float((mask == n).mean()) for n, name in enumerate(result.classes, 1)}
    labels = support.project_labels(mask)
    figures = (result.confidence, result.proportions, result.presences, areas, milliseconds)
    record = Record(version, stage, *figures, png(labels))
    values = {
        label: (result.probabilities[name] * 255).round().astype(np.uint8)
        for label, name in zip(support.labels, support.classes, strict=True)
    }
    return Maps(record, labels, values)


def png(array: np.ndarray, level: int = 1) -> bytes:
    """An array [H, W] or [H, W, 3] uint8 as a PNG."""
    buffer = io.BytesIO()
    Image.fromarray(array).save(buffer, "PNG", compress_level=level)
    return buffer.getvalue()
