"""IoU of settings on held-out pixels, and the best of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from repri.inference.labels import IGNORE

from .blend import FLOOR, as_logs
from .compare import Compare, Sight
from .heldout import HeldOut

__all__ = ["CLEARLY", "Pixels", "Setting", "best_of", "offsets_for", "pixels_of", "score"]

CLEARLY = 0.02
"""IoU by which offsets must be better than none."""
FAR = 0.1
"""IoU by which textures must be better than the default."""
LONGER = 0.05
"""IoU by which a larger size, which takes longer, must be better."""
PIXELS = 10_000
"""About as many pixels of a held-out part are compared."""
OFFSETS = (-2.0, -1.5, -1.0, -0.5, 0.0, 0.5, 1.0)
"""What may be added to the log-probability of a class."""


class Setting(NamedTuple):
    """What is compared."""

    weight: float
    """Weight of the expert on textures."""
    sight: Sight
    """Size and classifier of the expert on objects."""

    def __str__(self) -> str:
        return f"textures {self.weight:g}, {self.sight}"


class Pixels(NamedTuple):
    """Some pixels of a held-out part, and what the experts say about them."""

    objects: dict[Sight, Tensor]
    """Size and classifier → [N + 1, M] log-probabilities of the expert on objects; −∞ for classes it did not know."""
    textures: Tensor
    """[N + 1, M] log-probabilities of the expert on textures."""
    truth: Tensor
    """[M] true ids."""
    compared: Tensor
    """bool [N]: classes that were known."""
    alike: tuple[float, ...]
    """How much the part is like the rest, with each size and classifier."""


def pixels_of(compare: Compare, part: HeldOut, sights: Sequence[Sight], known: Pixels | None = None) -> Pixels:
    """What the experts say about pixels of a held-out part, with each size and classifier of the expert on objects.

    Args:
        compare: The support and the experts.
        part: The part.
        sights: Sizes and classifiers.
        known: What is known about these pixels with other sizes and classifiers.

    Returns:
        What is known now.
    """
    places = np.flatnonzero(part.truth != IGNORE)
    places = torch.from_numpy(places[:: max(1, len(places) // PIXELS)])
    rows = torch.tensor([0, *part.classes])

    def every(logs: Tensor) -> Tensor:
        out = torch.full((compare.classes + 1, len(places)), -torch.inf)
        out[rows] = logs.flatten(1)[:, places]
        return out

    answers = {sight: compare.objects(part, sight) for sight in sights}
    objects = {sight: every(as_logs(probability)) for sight, (probability, _) in answers.items()}
    alike = tuple(like for _, like in answers.values())
    if known is not None:
        return known._replace(objects=known.objects | objects, alike=known.alike + alike)
    compared = torch.zeros(compare.classes, dtype=torch.bool)
    compared[rows[1:] - 1] = True
    truth = rows[torch.from_numpy(part.truth.reshape(-1).astype(np.int64))[places]]
    textures = every(compare.textures(part).clamp_min(math.log(FLOOR)))
    return Pixels(objects, textures, truth, compared, alike)


def score(pixels: Sequence[Pixels], setting: Setting, offsets: Sequence[float] = (), free: bool = False) -> float:
    """Mean over the classes of ΣI / ΣU over the held-out parts; classes that were never compared are left out.

    With ``free``, textures may have the best of a few offsets, because they often claim too much or too little, which
    is mended after the choice."""
    weight, sight = setting
    if free and weight:
        return max(score(pixels, setting, [step] * len(pixels[0].compared)) for step in OFFSETS)
    hits = unions = torch.zeros(len(pixels[0].compared))
    for part in pixels:
        logs = (1 - weight) * part.objects[sight] + weight * part.textures
        if offsets:
            logs = logs + torch.tensor([0.0, *offsets])[:, None]
        mask = _largest(logs)
        ids = torch.arange(1, len(part.compared) + 1)[:, None]
        ours, theirs = mask == ids, part.truth == ids
        hits = hits + (ours & theirs).sum(1) * part.compared
        unions = unions + (ours | theirs).sum(1) * part.compared
    shown = unions > 0
    return float((hits[shown] / unions[shown]).mean()) if shown.any() else 0.0


def _largest(logs: Tensor) -> Tensor:
    """[M] number of the largest of [N + 1, M] values, which may be −∞ or not a number; far faster than argmax, because
    N is small and M is not."""
    best, mask = logs[0], torch.zeros(logs.shape[1], dtype=torch.long)
    for n, values in enumerate(logs[1:], 1):
        mask = torch.where(values > best, n, mask)
        best = torch.where(values > best, values, best)
    return mask


def best_of(scores: dict[Setting, float], default: Setting, far: float = FAR) -> Setting:
    """The best setting, if it is clearly better than the default.

    Of two weights that are nearly as good, it is the larger one, because the expert on objects is often sure of itself
    where it is wrong. Textures, or a larger size alone, must be better by far, because photographs gain a little from
    them by chance and then lose on other images. A larger size takes longer, so it must also be better than the own
    size; a logistic regression, which saves time with several classes, need not be much better. A negative ``far`` is
    what textures may be worse."""
    if not scores:
        return default
    least = scores[default]

    def allowed(setting: Setting) -> bool:
        alone = CLEARLY if setting.sight.logistic else max(0.0, far)
        return setting == default or scores[setting] > least + (far if setting.weight else alone)

    def value(setting: Setting) -> float:
        return scores[setting] + CLEARLY * setting.weight + (max(0.0, -far) if setting.weight else 0.0)

    usable = {setting: value(setting) for setting in scores if allowed(setting)}
    own = {setting: value for setting, value in usable.items() if setting.sight.size == default.sight.size}
    best, larger = max(own, key=own.__getitem__), max(usable, key=usable.__getitem__)
    return larger if usable[larger] > usable[best] + (CLEARLY if larger.sight.logistic else LONGER) else best


def offsets_for(pixels: Sequence[Pixels], setting: Setting) -> tuple[float, ...]:
    """Numbers that are added to the log-probability of each class, chosen one class after the other, so that a class
    that claims too much or too little on held-out parts claims less or more; nothing if that is not clearly better."""
    before = best = score(pixels, setting)
    offsets = [0.0] * len(pixels[0].compared)
    for _ in range(2):
        for n in range(len(offsets)):
            for step in OFFSETS:
                trial = [*offsets[:n], step, *offsets[n + 1 :]]
                if (value := score(pixels, setting, trial)) > best:
                    offsets, best = trial, value
    return tuple(offsets) if best > before + CLEARLY else ()
