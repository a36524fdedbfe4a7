"""Whether an image shows a class at all: by the kind of thing that its most similar cells are."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from repri.features.extractor import FeatureExtractor
from repri.features.view import View
from repri.inference.labels import IGNORE, on_one_grid
from repri.models import load_extractor

__all__ = ["class_directions", "presence_of", "similarity", "whitened"]

FRACTION = 0.02
"""Fraction of an image's cells, the most similar ones, that stand for the object if it is there."""
SLOPE, MIDDLE = 14.4, 0.324
"""Logistic regression of presence on similarity: ``benchmarks/own_images.py presence`` fits it."""


def whitened(extractor: FeatureExtractor, features: Tensor, view: View, image: np.ndarray) -> Tensor:
    """Features in which kinds of objects differ more than objects differ from backgrounds.

    Args:
        extractor: The extractor.
        features: [C, h, w] its features.
        view: The view of the image.
        image: [H, W, 3] uint8; where nothing is known of the extractor's features, the embedded model looks at it.

    Returns:
        [r, h, w], of length 1 at each cell.
    """
    if extractor.whitening is not None:
        return extractor.whitening(features)
    judge, pixels = _judge(str(getattr(extractor, "device", "cpu"))), view.pixels(image)[None]
    assert judge.whitening is not None
    scale = judge.rule.size / max(pixels.shape[-2:])
    size = [max(1, round(side * scale)) for side in pixels.shape[-2:]]
    theirs = judge.extract(F.interpolate(pixels, size, mode="bilinear", antialias=True))[0].cpu()
    white = F.interpolate(judge.whitening(theirs)[None], features.shape[-2:], mode="bilinear")[0]
    return F.normalize(white, dim=0)


@lru_cache(4)
def _judge(device: str) -> FeatureExtractor:
    """The embedded model, which tells kinds of objects apart for extractors that have no whitening."""
    return load_extractor("twin", layers=("twin4",), device=device)


def class_directions(white: Sequence[Tensor], labels: Sequence[Tensor], classes: int) -> Tensor:
    """Mean directions [N, r] of the classes.

    Args:
        white: K tensors [r, h, w] of whitened features.
        labels: K tensors [h, w] of labels 0 … N and 255, or soft values of one class.
        classes: N.
    """
    flat = on_one_grid(labels, IGNORE).flatten().float()
    rows = on_one_grid(white).movedim(1, -1).flatten(0, 2)  # [M, r]
    known = flat != IGNORE
    weights = [torch.where(known, (flat if classes == 1 else (flat == n).float()), 0.0) for n in range(1, classes + 1)]
    return F.normalize(torch.stack(weights) @ rows, dim=1)


def similarity(white: Tensor, valid: Tensor, directions: Tensor) -> Tensor:
    """[N] mean cosine to each class of the cells of an image [r, h, w] that are most similar to it."""
    cosines = directions @ white[:, valid]  # [N, M]
    return cosines.topk(max(1, round(FRACTION * cosines.shape[1])), dim=1).values.mean(1)


def presence_of(similar: Tensor) -> Tensor:
    """[N] probability that an image with these similarities shows each class, if every other image does."""
    return torch.sigmoid(SLOPE * (similar - MIDDLE))
