"""The result of segmenting one image."""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from PIL import Image

from repri.data.io.masks import write_mask
from repri.runtime.draw import overlay
from repri.runtime.errors import RepriError

__all__ = ["Segmentation"]


@dataclass(frozen=True, eq=False)
class Segmentation:
    """The mask of one image, at its own size, and the figures behind it.

    ``proportions``, ``presences`` and ``probabilities`` are always by class name. With a single class, ``proportion``,
    ``presence`` and ``probability`` give its value directly.
    """

    source: str
    """The file, or the place of the image in the sequence."""
    image: np.ndarray
    """[H, W, 3] uint8, upright."""
    mask: np.ndarray
    """[H, W] uint8: 0 background, 1 … N the classes."""
    probabilities: dict[str, np.ndarray]
    """Class → [H, W] float32."""
    proportions: dict[str, float]
    """Class → estimated (or given) proportion of the image that it covers; 0 for a class that is probably absent."""
    confidence: float
    """IoU that the probabilities themselves expect of the mask, as a mean over the classes in it; 1 if there is
    none."""
    presences: dict[str, float]
    """Class → probability that the image shows it at all, if every other image does."""
    regions: dict[str, np.ndarray] = field(default_factory=dict)
    """Class → bool [n, H, W]: the regions of which its mask was made, with ``refine="regions"``."""

    def __repr__(self) -> str:
        height, width = self.mask.shape
        sizes = ", ".join(f"{name} {value:.1%}" for name, value in self.proportions.items())
        return f"Segmentation({self.source}: {width}×{height} pixels; {sizes}; confidence {self.confidence:.2f})"

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes; class n of the mask is ``classes[n - 1]``."""
        return tuple(self.probabilities)

    @property
    def probability(self) -> np.ndarray:
        """[H, W] float32: the probability of the only class."""
        return self.probabilities[self._only("probability", "probabilities")]

    @property
    def proportion(self) -> float:
        """The proportion of the only class."""
        return self.proportions[self._only("proportion", "proportions")]

    @property
    def presence(self) -> float:
        """The presence of the only class."""
        return self.presences[self._only("presence", "presences")]

    @property
    def present(self) -> bool:
        """Whether any class is probably there."""
        return max(self.presences.values()) >= 0.5

    def instances(self) -> dict[str, np.ndarray]:
        """The objects of each class: parts of the mask that do not touch, and touching ones that regions separate.

        Returns:
            Class → [H, W] int32: 0 outside, 1, 2, … the objects. It needs scipy (``pip install 'repri[regions]'``).
        """
        from repri.regions.instances import separated

        return {name: separated(self.mask == n, self.regions.get(name)) for n, name in enumerate(self.probabilities, 1)}

    def overlay(self) -> np.ndarray:
        """[H, W, 3] uint8: the image with the mask over it."""
        return overlay(self.image, self.mask, opacity=0.5, line=(255, 255, 255))

    def save(self, path: str | Path) -> None:
        """Write the mask as a PNG of class ids, with VOC's palette.

        Args:
            path: File to write.
        """
        path = Path(path).expanduser()
        if path.suffix.lower() != ".png":
            raise RepriError(f"A mask is saved as PNG: give a file name that ends in .png, got {str(path)!r}.")
        write_mask(self.mask, path)

    def _repr_png_(self) -> bytes:
        """The overlay, for notebooks."""
        buffer = io.BytesIO()
        Image.fromarray(self.overlay()).save(buffer, "PNG")
        return buffer.getvalue()

    def _only(self, one: str, several: str) -> str:
        if len(self.probabilities) > 1:
            names = ", ".join(self.classes)
            raise RepriError(f"{one} is for a single class and the result has {names}: use {several}[name].")
        return self.classes[0]
