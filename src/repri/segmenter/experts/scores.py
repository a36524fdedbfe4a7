"""IoU of settings on held-out pixels, and the best of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from repri.inference.labels import IGNORE

from .blend import FLOOR, LOWEST, RAISE, as_logs
from .compare import Compare, Sight
from .heldout import HeldOut

__all__ = ["CLEARLY", "Pixels", "Setting", "best_of", "pixels_of", "score"]

CLEARLY = 0.02
"""IoU that is more than chance."""
FAR = 0.1
"""IoU by which textures must be better than the default."""
LONGER = 0.05
"""IoU by which a larger size, which takes longer, must be better."""
PIXELS = 10_000
"""About as many pixels of a held-out part are compared where there is an object, or might be, and as many elsewhere."""
MIGHT = math.log(LOWEST)
"""Least log-probability with which an expert says that there might be an object: no setting sees one below."""
SHIFTS = (-2.0, -1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, RAISE)
"""What may be added to the log-probabilities of the classes while settings are compared."""


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
    places: Tensor
    """[M] places in the held-out part."""
    counts: Tensor
    """[M] number of pixels that each of them stands for."""
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
    answers = {sight: compare.objects(part, sight) for sight in sights}
    alike = tuple(like for _, like in answers.values())
    whole = {sight: as_logs(probability).flatten(1) for sight, (probability, _) in answers.items()}
    rows = torch.tensor([0, *part.classes])

    def every(logs: Tensor, places: Tensor) -> Tensor:
        out = torch.full((compare.classes + 1, len(places)), -torch.inf)
        out[rows] = logs[:, places]
        return out

    if known is not None:
        objects = {sight: every(logs, known.places) for sight, logs in whole.items()}
        return known._replace(objects=known.objects | objects, alike=known.alike + alike)
    truth = torch.from_numpy(part.truth.reshape(-1).astype(np.int64))
    textures = compare.textures(part).flatten(1).clamp_min(math.log(FLOOR))
    places, counts = _drawn(truth, [*whole.values(), textures])
    compared = torch.zeros(compare.classes, dtype=torch.bool)
    compared[rows[1:] - 1] = True
    objects = {sight: every(logs, places) for sight, logs in whole.items()}
    return Pixels(objects, every(textures, places), rows[truth[places]], places, counts, compared, alike)


def _drawn(truth: Tensor, answers: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Places of the pixels [M] that are compared, and the number of pixels that each stands for. An object may have few
    of the pixels, so those where it is, or might be, are drawn apart.

    Args:
        truth: [P] ids of all pixels.
        answers: [N + 1, P] log-probabilities, background first.
    """
    labelled, shown = truth != IGNORE, truth > 0
    for logs in answers:
        shown = shown | (logs[1:].amax(0) > MIGHT)
    kinds = [(labelled & kind).nonzero()[:, 0] for kind in (shown, ~shown)]
    drawn = [places[:: max(1, len(places) // PIXELS)] for places in kinds]
    counts = [torch.full((len(few),), len(every) / max(1, len(few))) for few, every in zip(drawn, kinds, strict=True)]
    return torch.cat(drawn), torch.cat(counts)


def score(pixels: Sequence[Pixels], setting: Setting, free: bool = False) -> float:
    """Mean over the classes of ΣI / ΣU over the held-out parts; classes that were never compared are left out.

    With ``free``, textures have the best of a few shifts: an expert that was fitted to less, and more quickly, often
    claims too much or too little, which says nothing about the one that is fitted to all."""
    return max(_shifted(pixels, setting, shift) for shift in (SHIFTS if free and setting.weight else (0.0,)))


def _shifted(pixels: Sequence[Pixels], setting: Setting, shift: float) -> float:
    """The score if a number is added to the log-probabilities of the classes."""
    weight, sight = setting
    hits = unions = torch.zeros(len(pixels[0].compared))
    for part in pixels:
        logs = (1 - weight) * part.objects[sight] + weight * part.textures
        logs[1:] += shift
        mask = _largest(logs)
        ids = torch.arange(1, len(part.compared) + 1)[:, None]
        ours, theirs = mask == ids, part.truth == ids
        hits = hits + ((ours & theirs).float() @ part.counts) * part.compared
        unions = unions + ((ours | theirs).float() @ part.counts) * part.compared
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
