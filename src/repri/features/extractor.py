"""The one interface between features and everything that uses them."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from repri.runtime.errors import RepriError

from .grid import Grid
from .view import Resize, View, resized
from .whitening import MappedWhitening, Whitening

__all__ = ["IMAGENET", "PRECISIONS", "FeatureExtractor", "InputRule", "features_of", "fingerprint_of"]

PRECISIONS = {"half": torch.float16, "single": torch.float32}
"""Precision of features → its dtype."""


class InputRule(NamedTuple):
    """The input that an extractor wants."""

    size: int
    """Length of the longer side at which it works best."""
    multiple: int = 1
    """Both sides must be multiples of this number."""
    mean: tuple[float, float, float] = (0.0, 0.0, 0.0)
    std: tuple[float, float, float] = (1.0, 1.0, 1.0)
    """Normalisation of RGB in [0, 1]; :meth:`FeatureExtractor.extract` applies it."""


IMAGENET = InputRule(417, 1, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


class FeatureExtractor(ABC):
    """A frozen network that turns images into dense features.

    A new extractor sets ``name``, ``channels``, ``stride`` and ``rule``, and defines ``_forward`` and ``fingerprint``.
    """

    name: str
    """Name in results and messages."""
    channels: int
    """Number of channels C."""
    stride: int
    """Pixels from one cell to the next."""
    on_pixels = False
    """Whether cell (i, j) always lies on pixel (i·stride, j·stride); else the cells tile the image."""
    rule: InputRule
    """The input that it wants."""
    whitening: Whitening | MappedWhitening | None = None
    """How its features spread over many images, if this is known."""
    seen: tuple[str, ...] = ()
    """Classes whose labels it was trained with, as far as this is known: they are not novel to it."""
    background: Tensor | None = None
    """[C] direction of backgrounds in general among its features, if it is known (``models.heads.discriminant``)."""
    networks: int = 1
    """Number of networks whose features it joins."""

    @property
    def widths(self) -> tuple[int, ...]:
        """Number of channels of each layer that it gives; their sum is C."""
        return (self.channels,)

    @property
    def default_preset(self) -> str:
        """The inference preset that suits its features."""
        if self.background is None:
            return "clean"
        return "discriminant" if self.networks == 1 else "joint"

    def cells(self, pixels: tuple[int, int]) -> tuple[int, int]:
        """Rows and columns of cells for an input of some height and width."""
        return -(-pixels[0] // self.stride), -(-pixels[1] // self.stride)

    def grid(self, pixels: tuple[int, int]) -> Grid:
        """Where the cells lie on an input of some height and width."""
        return Grid.of(self.cells(pixels), pixels, self.stride, self.on_pixels)

    def between(self, features: Tensor, pixels: tuple[int, int], rows: Tensor, columns: Tensor) -> Tensor:
        """Features between the cells, bilinearly.

        Args:
            features: [B, C, h, w] features of an input.
            pixels: Height and width of the input.
            rows: [m] rows of its pixels, as float.
            columns: [n] columns of its pixels, as float.

        Returns:
            [B, C, m, n] features at these places.
        """
        return self.grid(pixels).interpolate(features, rows, columns)

    def view(
        self, original: tuple[int, int], resize: Resize = "aspect", size: int | None = None, square: bool = False
    ) -> View:
        """How this extractor sees an image.

        Args:
            original: Height and width of the image.
            resize: How the image is resized; a protocol decides it.
            size: Long side in pixels; default: the extractor's own.
            square: Whether the input is padded to a square, so that images of different shapes fit one batch.

        Returns:
            The view.
        """
        size = self.rule.size if size is None else size
        multiple = self.rule.multiple if self.rule.multiple > 1 or resize == "aspect" else None
        if resize != "aspect" and multiple and size % multiple:
            lower, upper = size // multiple * multiple, -(-size // multiple) * multiple
            raise RepriError(
                f"{self.name} takes sides that are multiples of {multiple}, and the input has {size} pixels: "
                f"set size to {lower} or {upper}."
            )
        content, full = resized(original, resize, size, multiple, square)
        return View(resize, original, content, full, self.grid(full))

    def extract(self, images: Tensor) -> Tensor:
        """Features of images.

        Args:
            images: [B, 3, H, W] RGB in [0, 1].

        Returns:
            [B, C, h, w].
        """
        if not isinstance(images, Tensor) or images.ndim != 4 or images.shape[1] != 3 or images.numel() == 0:
            got = list(images.shape) if isinstance(images, Tensor) else type(images).__name__
            raise RepriError(f"{self.name}: images must be a tensor [B, 3, H, W], got {got}.")
        if not images.dtype.is_floating_point:
            raise RepriError(f"{self.name}: images must be float in [0, 1], got {images.dtype}: divide them by 255.")
        images = images.float()
        multiple = self.rule.multiple
        height, width = images.shape[-2:]
        if height % multiple or width % multiple:
            fit = "×".join(str(-(-side // multiple) * multiple) for side in (height, width))
            raise RepriError(
                f"{self.name}: the sides must be multiples of {multiple}, got {height}×{width}: resize or pad to {fit}."
            )
        mean, std = (images.new_tensor(v).view(3, 1, 1) for v in (self.rule.mean, self.rule.std))
        with torch.inference_mode():
            features = self._forward((images - mean) / std)
        return features.clone() if features.is_inference() else features  # an ordinary tensor again

    @abstractmethod
    def _forward(self, images: Tensor) -> Tensor:
        """Normalised images → features, under inference mode."""

    def coarse(self, times: int) -> FeatureExtractor:
        """An extractor that gives every ``times``-th of these cells, in both directions from the first on, for less
        work; this one if there is none."""
        return self

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """Hash of architecture, options, weights and arithmetic, on which stored features depend."""

    @property
    def identity(self) -> str:
        """A hash that is the same on every device, by which trained heads and saved segmenters know their extractor."""
        return self.fingerprint


def features_of(extractor: FeatureExtractor, image: np.ndarray, view: View, precision: str = "half") -> Tensor:
    """Features of one image, rounded as the feature store keeps them, so that stored and new features are equal.

    Args:
        extractor: The extractor.
        image: [H, W, 3] uint8.
        view: The view of the image.
        precision: ``half`` or ``single``.

    Returns:
        [C, h, w] on the CPU.
    """
    features = extractor.extract(view.pixels(image)[None])[0]
    return rounded(features, precision, extractor, view)


def rounded(features: Tensor, precision: str, extractor: FeatureExtractor, view: View | None = None) -> Tensor:
    """Features in a precision, on the CPU; values that are not finite and a wrong number of cells are errors."""
    features = features.to(PRECISIONS[precision]).cpu()
    if not features.isfinite().all():
        other = "another extractor" if precision == "single" else "single precision or another extractor"
        raise RepriError(f"{extractor.name} gives features that are NaN or infinite: use {other}.")
    if view is not None and tuple(features.shape[-2:]) != view.grid.cells:
        raise RuntimeError(
            f"{extractor.name} says that it has {view.grid.cells} cells and gives {tuple(features.shape[-2:])}: "
            "its method cells() is wrong"
        )
    return features


def fingerprint_of(description: Sequence[object], tensors: Iterable[tuple[str, Tensor]]) -> str:
    """The sha256 of a description and named tensors."""
    digest = hashlib.sha256(repr(tuple(description)).encode())
    for name, tensor in tensors:
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
    return digest.hexdigest()
