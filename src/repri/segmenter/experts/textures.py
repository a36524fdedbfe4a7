"""The expert on colours and textures: a small network that has learned from cells of two pixels.

It knows no kinds of objects, and needs none where the queries look like the support: on microscope images, fields or
surfaces. :mod:`repri.segmenter.experts.blend` joins it with the expert on objects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from repri.features.extractor import FeatureExtractor
from repri.features.view import View
from repri.inference import InferenceConfig, adapt
from repri.inference.labels import IGNORE
from repri.models.extractors.lowlevel import LowLevel
from repri.segmenter.look import CLEAN

from .copies import resized_mask, varied
from .learned import Learned, LearnSettings, learn

__all__ = ["SMALL", "Sheet", "Textures", "fit_textures", "sheet_of", "sheets_of", "width_of", "working_scale"]

SMALL = LowLevel()
"""Extractor of small cells."""
PIXELS = 180_000
"""Pixels of an image at which textures are looked at, such as 490×367."""
MOST = 1024
"""Longest side at which textures of thin objects and of queries are looked at."""
THIN = 4.0
"""Pixels that a thin object should be wide at the working size."""
CELLS = 3000
"""Cells of each class that are taken from an annotated image; half as many from a varied copy."""
COPIES = 8
"""Varied copies of all annotated images together, as far as each has at least one and at most four."""
BALANCE = 0.6
"""How far scarce classes of scribbles are repeated: 0 leaves their cells as they are, 1 makes all classes equal."""
KEPT = 1500
"""Cells of the support, and about as many of a query, that the steps on a query look at."""


class Sheet(NamedTuple):
    """The small cells of one image."""

    features: Tensor
    """[C, h, w]."""
    view: View

    def labelled(self, mask: np.ndarray, classes: int) -> tuple[Tensor, Tensor]:
        """Places [M] of the cells that a mask [H, W] of the image, at any size, labels, and their fractions [M, N + 1]
        of the classes."""
        mask = resized_mask(mask, self.view.original)
        labels = self.view.labels(mask, CLEAN.cell_labels, classes).flatten()
        known = (labels != IGNORE).nonzero()[:, 0]
        labels = labels[known]
        if classes == 1:
            fractions = torch.stack([1 - labels.float(), labels.float()], 1)
        else:
            fractions = F.one_hot(labels.long(), classes + 1).float()
        return known, fractions


@dataclass(frozen=True, eq=False)
class Textures:
    """A fitted expert."""

    extractor: FeatureExtractor
    scale: float
    """Factor by which images are resized."""
    learned: Learned
    hidden: Tensor
    """[M, F] support cells at the last hidden layer."""
    targets: Tensor
    """[M, N + 1] fractions of the classes in these cells."""
    shots: int
    """K."""
    config: InferenceConfig
    """Steps on each query."""

    def logs(self, image: np.ndarray, point: tuple[float, ...] | None = None) -> Tensor:
        """Log-probabilities of the background and the classes.

        Args:
            image: [H, W, 3] uint8.
            point: Known proportion of each class.

        Returns:
            [N + 1, H, W] at the image's own size.
        """
        return self.logs_of(sheet_of(self.extractor, image, self.scale), point)

    def logs_of(self, sheet: Sheet, point: tuple[float, ...] | None = None) -> Tensor:
        """As :meth:`logs`, for an image whose cells are there already."""
        cells = sheet.features.flatten(1)
        config, told = self.config, None
        if point is not None:
            config, told = self.config.oracle().replace(lr=self.config.lr), torch.tensor(point)
        few = self.learned.hidden(cells[:, :: max(1, cells.shape[1] // KEPT)]).mT.contiguous()  # enough for a step
        args = (self.learned.weight, self.learned.bias, self.hidden, self.targets, few)
        adapted = adapt(*args, config, told, self.shots)
        logits = self.learned.adapted(adapted.weight, adapted.bias).logits(cells)
        return sheet.view.restore(logits.log_softmax(0).unflatten(1, sheet.view.grid.cells))


def sheet_of(extractor: FeatureExtractor, image: np.ndarray, scale: float) -> Sheet:
    """The small cells of an image [H, W, 3] that is resized by a factor."""
    longest = max(image.shape[:2])
    size = max(extractor.stride, min(MOST, round(scale * longest)))
    view = extractor.view((image.shape[0], image.shape[1]), CLEAN.resize, size)
    return Sheet(extractor.extract(view.pixels(image)[None])[0], view)


def sheets_of(extractor: FeatureExtractor, image: np.ndarray, scale: float, copies: int, seed: int = 0) -> list[Sheet]:
    """The small cells of an annotated image, then those of its varied copies, in half precision to spare memory."""
    sheets = (sheet_of(extractor, pixels, scale) for pixels in (image, *varied(image, copies, seed)))
    return [sheet._replace(features=sheet.features.half()) for sheet in sheets]


def working_scale(images: Sequence[np.ndarray], maps: Sequence[np.ndarray]) -> float:
    """Factor by which images are resized: the support's largest image gets 180,000 pixels, or more where objects are so
    thin that they would be lost; images are never enlarged.

    Example:
        >>> image, mask = np.zeros((1000, 1280, 3), np.uint8), np.zeros((1000, 1280), np.uint8)
        >>> mask[200:700, 300:900] = 1
        >>> working_scale([image], [mask])
        0.375
        >>> thin = np.zeros_like(mask)
        >>> thin[:, 500:504] = 1
        >>> working_scale([image], [thin])
        0.8
    """
    longest = max(max(image.shape[:2]) for image in images)
    wide = min(width_of(mask) for mask in maps)
    area = max(image.shape[0] * image.shape[1] for image in images)
    wanted = max((PIXELS / area) ** 0.5, THIN / max(wide, 1.0))
    return min(1.0, wanted, MOST / longest)


def width_of(mask: np.ndarray) -> float:
    """Mean width in pixels of what a mask shows: twice its area over its border."""
    shown = (mask > 0) & (mask != IGNORE)
    border = (shown[1:] != shown[:-1]).sum() + (shown[:, 1:] != shown[:, :-1]).sum()
    return float(2 * shown.sum() / border) if border else float(max(mask.shape))


def fit_textures(
    extractor: FeatureExtractor,
    sheets: Sequence[Sequence[Sheet]],
    maps: Sequence[np.ndarray],
    classes: int,
    scale: float,
    settings: LearnSettings | None = None,
    config: InferenceConfig | None = None,
    balanced: bool = False,
) -> Textures:
    """Fit the expert.

    Args:
        extractor: Features of small cells.
        sheets: For each of K images its own cells, then those of varied copies.
        maps: K arrays [H, W] with 0 … N and 255, or soft values of one class.
        classes: N.
        scale: Factor by which images are resized.
        settings: How the network is trained.
        config: Steps on each query; default: the preset ``learned``.
        balanced: Whether cells of scarce classes are repeated, because the maps are scribbles.

    Returns:
        The expert.
    """
    steps = InferenceConfig.preset("learned") if config is None else config
    rng, rows, targets, area = np.random.default_rng(0), [], [], torch.zeros(classes + 1)
    for group, mask in zip(sheets, maps, strict=True):
        for copy, sheet in enumerate(group):
            labelled, fractions = sheet.labelled(mask, classes)
            if not copy:
                area += fractions.sum(0)
            drawn = _drawn(fractions, CELLS // (2 if copy else 1), rng)
            places = labelled[drawn].numpy()
            rows.append(torch.from_numpy(sheet.features.flatten(1).numpy().take(places, 1)).mT)  # faster than torch's
            targets.append(fractions[drawn])
    cells, wanted = torch.cat(rows), torch.cat(targets)
    if balanced:
        repeated = _balanced(wanted)
        cells, wanted = cells[repeated], wanted[repeated]
    learned = learn(cells, wanted, classes, settings)
    if all((mask != IGNORE).mean() > 0.5 for mask in maps):  # scribbles say nothing about proportions
        learned = learned.shifted(0.3 * ((area / area.sum()) / wanted.mean(0)).nan_to_num(1.0).clamp(1e-3, 1e3).log())
    kept = torch.from_numpy(rng.permutation(len(cells))[:KEPT])
    return Textures(extractor, scale, learned, learned.hidden(cells[kept].mT).mT, wanted[kept], len(maps), steps)


def _drawn(fractions: Tensor, most: int, rng: np.random.Generator) -> Tensor:
    """Places of cells: up to ``most`` of each class."""
    kinds = fractions.argmax(1).numpy()
    picked = [np.flatnonzero(kinds == n) for n in range(fractions.shape[1])]
    return torch.from_numpy(np.concatenate([rng.permutation(places)[:most] for places in picked]))


def _balanced(fractions: Tensor) -> Tensor:
    """Places of cells [M] → places in which the cells of scarce classes are repeated. A few scribbles on a small object
    are soon outvoted by those on the background, although they say nothing about how large either is."""
    kinds = fractions.argmax(1)
    counts = torch.bincount(kinds, minlength=fractions.shape[1]).clamp_min(1)
    times = (counts.max() / counts).pow(BALANCE).round().long()
    return torch.arange(len(kinds)).repeat_interleave(times[kinds])
