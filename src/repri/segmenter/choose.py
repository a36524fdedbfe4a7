"""Settings from the support: how much the expert on textures counts, and how large images are looked at.

Every setting segments parts of the support that were held out. The setting with the best IoU is taken if it is clearly
better than the default; else the default stays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from repri.features.extractor import FeatureExtractor
from repri.inference.labels import IGNORE
from repri.methods import Method
from repri.refine import get_refiner

from .blend import ALIKE, SOFT, STEP, USUAL, Choice, blended, likeness
from .classify import Classifier, shots_of
from .heldout import HeldOut, held_out
from .inputs import Known
from .learned import LearnSettings
from .look import Look, Seen
from .textures import COPIES, Sheet, Textures, fit_textures, sheet_of, sheets_of, working_scale

__all__ = ["Compare", "choose"]

WEIGHTS = (0.0, 0.3, 0.5, 0.7, 0.85)
"""Weights of the expert on textures; the expert on objects has the rest."""
WEIGHTS_OF_ONE = (0.0, 0.5, 0.7)
"""The same with a single annotated image, whose halves are more alike than images are."""
LARGER = 1.42
"""Factor of the larger size, for which the network takes twice as long."""
CLEARLY = 0.02
"""IoU by which a setting must be better than the default."""
MARGIN = 0.05
"""Likeness by which a query may be less like the support than its images are like each other."""
MOST = 2.0
"""Most steps of likeness that the gain on the halves of a single image counts for."""
QUICK = LearnSettings(members=1, steps=120, hidden=32)
"""Training of the networks that are only compared."""

Setting = tuple[float, int]
"""Weight of the expert on textures, and size in pixels for the expert on objects."""


@dataclass(frozen=True, eq=False)
class Compare:
    """A support, and the two experts that are fitted to parts of it; features are computed once."""

    look: Look
    """How the expert on objects looks at images."""
    small: FeatureExtractor
    """Extractor of small cells, for the expert on textures."""
    images: Sequence[np.ndarray]
    """K arrays [H, W, 3] uint8."""
    maps: Sequence[np.ndarray]
    """K arrays [H, W] with 0 … N and 255, or soft values of one class."""
    classes: int
    """N."""
    method: Method
    """Method of the expert on objects."""
    joint: bool
    """Whether several classes compete in one classifier."""
    refine: str
    """Refinement of the expert on objects."""

    @cached_property
    def scale(self) -> float:
        """Factor by which images are resized for the expert on textures."""
        return working_scale(self.images, self.maps)

    @cached_property
    def sheets(self) -> list[list[Sheet]]:
        """Small cells of each image and of its varied copies."""
        return [sheets_of(self.small, image, self.scale, COPIES, k) for k, image in enumerate(self.images)]

    @cached_property
    def _seen(self) -> dict[tuple[int, int], Seen]:
        return {}

    @cached_property
    def _experts(self) -> dict[int, Textures]:
        return {}

    def seen(self, place: int, size: int) -> Seen:
        """Large cells of an image of the support."""
        if (place, size) not in self._seen:
            self._seen[place, size] = Look(self.look.extractor, size).see(self.images[place])
        return self._seen[place, size]

    def textures(self, part: HeldOut) -> Tensor:
        """[N + 1, H, W] log-probabilities of a held-out part by the expert on textures."""
        if part.fold not in self._experts:
            sheets = [self.sheets[k][: 1 + COPIES // 2] for k in part.known]
            classes = len(part.classes)
            self._experts[part.fold] = fit_textures(self.small, sheets, part.maps, classes, self.scale, QUICK)
        expert = self._experts[part.fold]
        if part.place is not None:
            return expert.logs_of(self.sheets[part.place][0])
        return expert.logs_of(sheet_of(self.small, part.image, self.scale))

    def objects(self, part: HeldOut, size: int) -> tuple[Tensor, float]:
        """[N, H, W] probabilities of a held-out part by the expert on objects, and how much it looks like the rest."""
        shots = shots_of([self.seen(k, size) for k in part.known], part.maps, len(part.classes))
        background = self.look.extractor.background
        fitted = Classifier(shots, len(part.classes), self.method, background, self.joint)
        copy = part.place is None
        query = Look(self.look.extractor, size).see(part.image) if copy else self.seen(part.place, size)
        nothing = Known(None, None)
        answer = fitted.answer([query], nothing)[0]
        whole = fitted.one_map(replace(answer, probability=query.restore(answer.probability)), nothing)
        return get_refiner(self.refine)(whole.probability, part.image), likeness(query, shots.white)


def choose(compare: Compare, weight: float | None = None, size: int | None = None) -> tuple[Choice, Textures | None]:
    """Choose the settings for a support.

    Args:
        compare: The support and the experts.
        weight: Weight of the expert on textures, if it is fixed.
        size: Size in pixels for the expert on objects, if it is fixed.

    Returns:
        The choice, and the expert on textures if it has a weight.
    """
    own, single = compare.look.size, len(compare.images) == 1
    weights = (WEIGHTS_OF_ONE if single else WEIGHTS) if weight is None else (weight,)
    sizes = (own, round(LARGER * own)) if size is None else (size,)
    counts: dict[Setting, np.ndarray] = {}
    alike = []
    for part in held_out(compare.images, compare.maps, compare.classes):
        logs = compare.textures(part)
        for side in sizes:
            objects, like = compare.objects(part, side)
            alike.append(like)
            for w in weights:
                counts[w, side] = counts.get((w, side), 0) + _counts(blended(objects, logs, w), part, compare.classes)
    scores = {setting: _iou(count) for setting, count in counts.items()}
    best = _best(scores, (weights[0], sizes[0]))
    if weight is not None:
        limit = -1.0  # it counts for every query
    elif single and scores:
        gain = (scores[best] - scores[weights[0], sizes[0]] - USUAL) / STEP
        limit = ALIKE - SOFT * min(MOST, max(-MOST, gain))
    else:
        limit = min([ALIKE, *(like - MARGIN for like in alike)])
    named = {f"textures {w:g}, {side} pixels": score for (w, side), score in scores.items()}
    parts = "each half of the image by the other" if single else "each image by the others"
    choice = Choice(best[0], None if best[1] == own else best[1], limit, named, parts)
    if choice.weight == 0:
        return choice, None
    return choice, fit_textures(compare.small, compare.sheets, compare.maps, compare.classes, compare.scale)


def _best(scores: dict[Setting, float], default: Setting) -> Setting:
    """The best setting, if it is clearly better than the default. A larger size takes longer, so it must be clearly
    better than the best of the own size."""
    if not scores:
        return default
    own = {setting: score for setting, score in scores.items() if setting[1] == default[1]}
    best, larger = max(own, key=own.__getitem__), max(scores, key=scores.__getitem__)
    best = best if own[best] > own[default] + CLEARLY else default
    return larger if scores[larger] > scores[best] + CLEARLY else best


def _counts(probability: Tensor, part: HeldOut, classes: int) -> np.ndarray:
    """[N, 2] intersection and union of each class."""
    best, winner = probability.max(0)
    mask = torch.where(best > 1 - probability.sum(0), winner + 1, 0).numpy()
    out, compared = np.zeros((classes, 2)), part.truth != IGNORE
    for new, old in enumerate(part.classes, 1):
        ours, theirs = (mask == new) & compared, part.truth == new
        out[old - 1] = (ours & theirs).sum(), (ours | theirs).sum()
    return out


def _iou(counts: np.ndarray) -> float:
    """Mean over the classes that were compared."""
    shown = counts[:, 1] > 0
    return float((counts[shown, 0] / counts[shown, 1]).mean()) if shown.any() else 0.0
