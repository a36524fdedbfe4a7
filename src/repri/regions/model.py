"""The interface of promptable mask models: an image is encoded once, then any number of prompts get masks.

A *prompt* says where something is: points on it and off it, a box around it, a rough mask. A *region* is a mask that
the model gives for a prompt. The model knows no classes. :mod:`repri.regions.load` opens models by name.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from repri.runtime.errors import RepriError

from .frame import Frame

__all__ = ["Embedding", "RegionModel", "Regions"]

POINT, NO_POINT, BOX = 1, -1, (2, 3)
"""Labels that these models give to a point on the object, to a point that is not there, and to the corners of a box."""
SURE = 0.02
"""A mask prompt's probabilities are kept this far from 0 and 1."""


class Embedding(NamedTuple):
    """What a model knows about one image."""

    size: tuple[int, int]
    """Height and width of the image."""
    tensors: tuple[Tensor, ...]
    """The model's own tensors, in half precision."""


class Regions(NamedTuple):
    """P prompts with M masks each, on a grid that covers the whole image."""

    logits: Tensor
    """[P, M, h, w] float: above 0 means inside."""
    iou: Tensor
    """[P, M] IoU that the model predicts for each mask."""
    size: tuple[int, int]
    """Height and width of the image."""

    def at_size(self) -> Tensor:
        """bool [P, M, H, W]: the masks at the image's own size."""
        return F.interpolate(self.logits, self.size, mode="bilinear", align_corners=False) > 0

    def best(self) -> Tensor:
        """bool [P, H, W]: of each prompt, the mask with the largest predicted IoU, at the image's own size."""
        chosen = self.logits[torch.arange(len(self.iou)), self.iou.argmax(1)]
        return F.interpolate(chosen[:, None], self.size, mode="bilinear", align_corners=False)[:, 0] > 0


@dataclass(frozen=True)
class Prompts:
    """P prompts as a decoder takes them."""

    points: Tensor
    """[P, n, 2] float: x and y in pixels of the model's input."""
    labels: Tensor
    """[P, n] float: 1 on, 0 off, −1 no point, 2 and 3 the corners of a box."""
    masks: Tensor | None
    """[P, m, m] logits, or None."""


class RegionModel(ABC):
    """A promptable mask model.

    Example:
        >>> from repri.regions import load_regions
        >>> model = load_regions()  # doctest: +SKIP
        >>> embedding = model.encode(image)  # doctest: +SKIP
        >>> model.masks(embedding, points=[(120, 80)]).best()[0]  # doctest: +SKIP
    """

    name: str
    """Name in messages and results."""
    frame: Frame
    """How an image becomes the model's input."""
    mean: tuple[float, float, float] = (0.485, 0.456, 0.406)
    std: tuple[float, float, float] = (0.229, 0.224, 0.225)

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """Hash on which stored embeddings depend."""

    def encode(self, image: np.ndarray) -> Embedding:
        """Look at an image once; this is the slow part.

        Args:
            image: [H, W, 3] uint8.

        Returns:
            The embedding, for any number of calls of :meth:`masks`.
        """
        if image.ndim != 3 or image.shape[2] != 3 or image.dtype != np.uint8 or image.size == 0:
            raise RepriError(f"An image is an array [H, W, 3] of uint8, got {image.dtype} {list(image.shape)}.")
        size = (image.shape[0], image.shape[1])
        tensors = self._encode(self.frame.pixels(image, self.mean, self.std))
        return Embedding(size, tuple(tensor.half() for tensor in tensors))

    def masks(
        self, embedding: Embedding, points: Any = None, labels: Any = None, box: Any = None, mask: Any = None
    ) -> Regions:
        """Masks for one prompt or for several.

        Args:
            embedding: What :meth:`encode` returned.
            points: [n, 2] x and y in pixels of the image, or [P, n, 2] for P prompts.
            labels: [n] or [P, n]: 1 on the object, 0 off it, −1 no point; default: all are on it.
            box: (left, top, right, bottom) in pixels, or [P, 4].
            mask: [h, w] probabilities in [0, 1] on any grid that covers the image, or [P, h, w].

        Returns:
            The :class:`Regions`.
        """
        prompts = self.prompts(embedding.size, points, labels, box, mask)
        logits, iou = self._decode(embedding, prompts)
        return Regions(self.frame.restore(logits.float(), embedding.size), iou.float(), embedding.size)

    def prompts(self, size: tuple[int, int], points: Any, labels: Any, box: Any, mask: Any) -> Prompts:
        """Prompts in the model's own coordinates; a mistake in them is an error that says what was wrong."""
        if points is None and labels is not None:
            raise RepriError("labels say which points are on the object: give points with them.")
        if points is None and box is None and mask is None:
            raise RepriError("A prompt needs points, a box or a mask.")
        parts: list[tuple[Tensor, Tensor]] = []
        if points is not None:
            places = _batched(points, 3, "points", "[n, 2] or [P, n, 2]", last=2)
            given = torch.ones(places.shape[:2]) if labels is None else _batched(labels, 2, "labels", "[n] or [P, n]")
            if given.shape != places.shape[:2] or not torch.isin(given, torch.tensor([-1.0, 0.0, 1.0])).all():
                raise RepriError("labels must hold one of 1 (on the object), 0 (off it) or −1 for each point.")
            parts.append((self._placed(places, size), given))
        if box is not None:
            corners = _batched(box, 2, "box", "(left, top, right, bottom) or [P, 4]", last=4)
            if (corners[:, :2] >= corners[:, 2:]).any():
                raise RepriError(f"A box is (left, top, right, bottom) with left < right, got {corners[0].tolist()}.")
            parts.append((self._placed(corners.unflatten(1, (2, 2)), size), torch.tensor([BOX]).float()))
        soft = None if mask is None else _batched(mask, 3, "mask", "[h, w] or [P, h, w]")
        count = max([len(places) for places, _ in parts] + [0 if soft is None else len(soft)])
        if box is None:  # these decoders are trained with one empty point where there is no box
            parts.append((torch.zeros(1, 1, 2), torch.full((1, 1), float(NO_POINT))))
        if any(len(p) not in (1, count) for p, _ in parts) or (soft is not None and len(soft) not in (1, count)):
            raise RepriError("points, box and mask must be of the same number of prompts.")
        places = torch.cat([p.expand(count, -1, -1) for p, _ in parts], 1)
        kinds = torch.cat([k.expand(count, -1) for _, k in parts], 1)
        if soft is not None:
            inside = soft.clamp(SURE, 1 - SURE).logit()[:, None]
            soft = self.frame.fill(inside, size)[:, 0].expand(count, -1, -1)
        return Prompts(places, kinds, soft)

    def _placed(self, points: Tensor, size: tuple[int, int]) -> Tensor:
        height, width = size
        if ((points < 0) | (points > torch.tensor([width, height]))).any():
            raise RepriError(f"A point or box lies outside the image, which has {width}×{height} pixels.")
        return self.frame.points(points, size)

    @abstractmethod
    def _encode(self, pixels: Tensor) -> Sequence[Tensor]:
        """[1, 3, S, S] normalised pixels → tensors."""

    @abstractmethod
    def _decode(self, embedding: Embedding, prompts: Prompts) -> tuple[Tensor, Tensor]:
        """Logits [P, M, m, m] on the model's grid, and predicted IoU [P, M]."""


def _batched(values: Any, dims: int, name: str, wanted: str, last: int | None = None) -> Tensor:
    """A float tensor with ``dims`` axes, to which the axis of prompts was added if it was missing."""
    tensor = torch.as_tensor(np.asarray(values) if not isinstance(values, Tensor) else values).float()
    tensor = tensor[None] if tensor.ndim == dims - 1 else tensor
    if tensor.ndim != dims or tensor.numel() == 0 or (last is not None and tensor.shape[-1] != last):
        raise RepriError(f"{name} must have the shape {wanted}, got {list(tensor.shape)}.")
    return tensor
