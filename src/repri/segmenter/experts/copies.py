"""Varied copies of an annotated image: other light, contrast, tint and size.

One annotated image says how the object looks in one light. A classifier of colours and textures that sees only this
image relies on exact values, which change from image to image. Copies teach it how far it may rely on them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
import torch.nn.functional as F

__all__ = ["resized_image", "resized_mask", "varied"]

LIGHT = 0.4
"""Largest change of light and contrast, as a logarithm."""
TINT = 0.05
"""Largest change of a single colour, as a logarithm."""
SIZE = 0.35
"""Largest change of size, as a logarithm."""


def varied(image: np.ndarray, count: int, seed: int = 0) -> Iterator[np.ndarray]:
    """Varied copies of an image.

    Args:
        image: [H, W, 3] uint8.
        count: Number of copies.
        seed: Seed of the variations.

    Yields:
        Images [H′, W′, 3] uint8.

    Example:
        >>> [copy.shape for copy in varied(np.full((40, 60, 3), 100, np.uint8), 2)]
        [(50, 75, 3), (51, 77, 3)]
    """
    rng = np.random.default_rng(seed)
    for _ in range(count):
        gamma, contrast = np.exp(rng.uniform(-1, 1, 2) * (LIGHT, 0.7 * LIGHT))
        middle, offset, size = rng.uniform(0, 1), rng.uniform(-1, 1) * 0.16 * LIGHT, np.exp(rng.uniform(-SIZE, SIZE))
        tint = np.exp(rng.uniform(-TINT, TINT, 3)).astype(np.float32)
        values = ((np.arange(256, dtype=np.float32) / 255) ** np.float32(gamma))[image]
        pivot = np.float32(middle * values.mean())
        values = ((values - pivot) * np.float32(contrast) + pivot + np.float32(offset)) * tint
        sides = [max(16, round(side * size)) for side in image.shape[:2]]
        pixels = torch.from_numpy(values.clip(0, 1)).movedim(-1, 0)[None]
        resized = F.interpolate(pixels, sides, mode="bilinear", align_corners=False, antialias=True)[0]
        yield (resized.movedim(0, -1) * 255).round().to(torch.uint8).numpy()


def resized_image(image: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """An image [H, W, 3] uint8 at another size, smoothed where it shrinks."""
    pixels = torch.from_numpy(image).movedim(-1, 0)[None]
    resized = F.interpolate(pixels, size, mode="bilinear", align_corners=False, antialias=True)[0]
    return np.ascontiguousarray(resized.movedim(0, -1).numpy())


def resized_mask(mask: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """A mask [H, W] at another size, by its nearest pixels."""
    if mask.shape == size:
        return mask
    rows, columns = (((np.arange(n) + 0.5) * (old / n)).astype(int) for n, old in zip(size, mask.shape, strict=True))
    return mask[rows][:, columns]
