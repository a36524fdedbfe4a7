"""Settings from the support: how much the expert on textures counts, and how large images are looked at.

Every setting segments parts of the support that were held out. The setting with the best IoU is taken if it is clearly
better than the default; else the default stays."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from repri.features.extractor import FeatureExtractor
from repri.inference import InferenceConfig
from repri.inference.labels import IGNORE
from repri.methods import Method, RePRI
from repri.refine import get_refiner
from repri.segmenter.classify import Classifier, shots_of
from repri.segmenter.inputs import Known
from repri.segmenter.look import Look, Seen

from .blend import ALIKE, FLOOR, SOFT, STEP, USUAL, Choice, as_logs, likeness
from .copies import resized_image, resized_mask
from .heldout import HeldOut, held_out
from .learned import LearnSettings
from .textures import COPIES, Sheet, Textures, fit_textures, sheet_of, sheets_of, width_of, working_scale

__all__ = ["Compare", "choose"]

WEIGHTS = (0.0, 0.5, 0.7, 0.85)
"""Weights of the expert on textures; the expert on objects has the rest."""
WEIGHTS_OF_ONE = (0.0, 0.5, 0.7)
"""The same with a single annotated image, whose halves are more alike than images are."""
LARGER = 1.42
"""Factor of the larger size, for which the network takes twice as long."""
LARGEST = 1024
"""Longest side of the images by which settings are compared."""
FEW = 1.2
"""Mean width of an object, in cells, below which it is small; that of a disc is 0.4 times its diameter."""
CLEARLY = 0.02
"""IoU by which a setting must be better than the default."""
MARGIN = 0.05
"""Likeness by which a query may be less like the support than its images are like each other."""
MOST = 2.0
"""Most steps of likeness that the gain on the halves of a single image counts for."""
PIXELS = 10_000
"""About as many pixels of a held-out part are compared."""
OFFSETS = (-2.0, -1.5, -1.0, -0.5, 0.0, 0.5, 1.0)
"""What may be added to the log-probability of a class."""
QUICK = LearnSettings(members=1, steps=100, hidden=32)
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
    factor: float = 1.0
    """Factor by which the images were reduced."""

    def reduced(self) -> Compare:
        """The same support with images of at most 1024 pixels, which is enough to compare settings."""
        factor = min(1.0, LARGEST / max(max(image.shape[:2]) for image in self.images))
        if factor == 1:
            return self
        sizes = [(max(1, round(m.shape[0] * factor)), max(1, round(m.shape[1] * factor))) for m in self.maps]
        images = [resized_image(image, size) for image, size in zip(self.images, sizes, strict=True)]
        maps = [resized_mask(mask, size) for mask, size in zip(self.maps, sizes, strict=True)]
        return replace(self, images=images, maps=maps, factor=factor)

    @cached_property
    def scale(self) -> float:
        """Factor by which images are resized for the expert on textures."""
        return working_scale(self.images, self.maps)

    @cached_property
    def steps(self) -> InferenceConfig:
        """Steps of the expert on textures on a query, with the terms that the method has."""
        terms = dataclasses.asdict(self.method.config) if isinstance(self.method, RePRI) else {}
        left_out = [term for term in ("h", "kl") if terms.get(f"lambda_{term}") == 0]
        return InferenceConfig.preset("learned").without(*left_out)

    @cached_property
    def sheets(self) -> list[list[Sheet]]:
        """Small cells of each image and of its varied copies."""
        copies = min(4, max(1, COPIES // len(self.images)))
        return [sheets_of(self.small, image, self.scale, copies, k) for k, image in enumerate(self.images)]

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

    @cached_property
    def small_objects(self) -> bool:
        """Whether the objects of the support are small for the cells of the expert on objects."""
        look, sides = self.look, [max(image.shape[:2]) for image in self.images]
        widths = [look.size / side * width_of(mask) for side, mask in zip(sides, self.maps, strict=True)]
        return float(np.median(widths)) < FEW * look.extractor.stride

    @property
    def better_refine(self) -> str | None:
        """Refinement that suits the size of the objects, if it is another one."""
        return "fine" if self.refine == "guided" and self.small_objects else None

    def textures(self, part: HeldOut) -> Tensor:
        """[N + 1, H, W] log-probabilities of a held-out part by the expert on textures."""
        if part.fold not in self._experts:
            sheets = [self.sheets[k][:3] for k in part.known]
            settings = (len(part.classes), self.scale, QUICK, self.steps)
            self._experts[part.fold] = fit_textures(self.small, sheets, part.maps, *settings)
        expert = self._experts[part.fold]
        if part.place is not None:
            return expert.logs_of(self.sheets[part.place][0])
        return expert.logs_of(sheet_of(self.small, part.image, self.scale))

    def fitted(self) -> Textures:
        """The expert on textures that is fitted to the whole support."""
        fitted = fit_textures(self.small, self.sheets, self.maps, self.classes, self.scale, None, self.steps)
        return replace(fitted, scale=self.factor * fitted.scale)

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
        refine = get_refiner(self.better_refine or self.refine)
        return refine(whole.probability, part.image), likeness(query, shots.white)


def choose(compare: Compare, weight: float | None = None, fixed_size: bool = False) -> tuple[Choice, Textures | None]:
    """Choose the settings for a support.

    Args:
        compare: The support and the experts.
        weight: Weight of the expert on textures, if it is fixed.
        fixed_size: Whether the expert on objects keeps its size.

    Returns:
        The choice, and the expert on textures if it has a weight.
    """
    compare = compare.reduced()
    if weight is not None:
        choice = Choice(weight, alike=-1.0, refine=compare.better_refine, least=_least(compare))
        return choice, compare.fitted() if weight else None
    own, single = compare.look.size, len(compare.images) == 1
    sizes = [own] if fixed_size else [own, round(LARGER * own)]
    if single and not fixed_size:  # its halves cannot tell, but the size of the object can
        sizes = [sizes[compare.small_objects]]
    pixels = [_pixels(compare, part, sizes) for part in held_out(compare.images, compare.maps, compare.classes)]
    settings = [(w, side) for side in sizes for w in (WEIGHTS_OF_ONE if single else WEIGHTS)] if pixels else []
    scores = {setting: _score(pixels, setting, free=not single) for setting in settings}
    default = (0.0, sizes[0])
    best, offsets = _best(scores, default), ()
    if single and scores:
        gain = (scores[best] - scores[default] - USUAL) / STEP
        limit = ALIKE - SOFT * min(MOST, max(-MOST, gain))
    else:
        limit = min([ALIKE, *(like - MARGIN for part in pixels for like in part.alike)])
        if scores and (compare.classes > 1 or best[0] > 0):
            offsets = _offsets(pixels, best)
    named = {f"textures {w:g}, {side} pixels": score for (w, side), score in scores.items()}
    parts = "each half of the image by the other" if single else "each image by the others"
    other = None if best[1] == own else best[1]
    choice = Choice(best[0], other, limit, compare.better_refine, offsets, _least(compare), named, parts)
    return choice, compare.fitted() if choice.weight else None


class Pixels(NamedTuple):
    """Some pixels of a held-out part, and what the experts say about them."""

    objects: dict[int, Tensor]
    """Size → [N + 1, M] log-probabilities of the expert on objects; −∞ for classes that were not known."""
    textures: Tensor
    """[N + 1, M] log-probabilities of the expert on textures."""
    truth: Tensor
    """[M] true ids."""
    compared: Tensor
    """bool [N]: classes that were known."""
    alike: tuple[float, ...]
    """How much the part is like the rest, at each size."""


def _pixels(compare: Compare, part: HeldOut, sizes: Sequence[int]) -> Pixels:
    places = np.flatnonzero(part.truth != IGNORE)
    places = torch.from_numpy(places[:: max(1, len(places) // PIXELS)])
    rows = torch.tensor([0, *part.classes])

    def every(logs: Tensor) -> Tensor:
        out = torch.full((compare.classes + 1, len(places)), -torch.inf)
        out[rows] = logs.flatten(1)[:, places]
        return out

    answers = {size: compare.objects(part, size) for size in sizes}
    objects = {size: every(as_logs(probability)) for size, (probability, _) in answers.items()}
    known = torch.zeros(compare.classes, dtype=torch.bool)
    known[rows[1:] - 1] = True
    truth = rows[torch.from_numpy(part.truth.reshape(-1).astype(np.int64))[places]]
    textures = every(compare.textures(part).clamp_min(math.log(FLOOR)))
    return Pixels(objects, textures, truth, known, tuple(like for _, like in answers.values()))


def _score(pixels: Sequence[Pixels], setting: Setting, offsets: Sequence[float] = (), free: bool = False) -> float:
    """Mean over the classes of ΣI / ΣU over the held-out parts; classes that were never compared are left out.

    With ``free``, textures may have the best of a few offsets, because they often claim too much or too little, which
    is mended after the choice."""
    weight, size = setting
    if free and weight:
        return max(_score(pixels, setting, [step] * len(pixels[0].compared)) for step in OFFSETS)
    hits = unions = torch.zeros(len(pixels[0].compared))
    for part in pixels:
        logs = (1 - weight) * part.objects[size] + weight * part.textures
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


def _least(compare: Compare) -> float:
    """Half of the smallest proportion of a single class in the support; 0 for scribbles, which tell none."""
    if compare.classes > 1 or any((mask == IGNORE).mean() > 0.5 for mask in compare.maps):
        return 0.0
    return min(float(mask[mask != IGNORE].mean()) for mask in compare.maps) / 2


def _best(scores: dict[Setting, float], default: Setting) -> Setting:
    """The best setting, if it is clearly better than the default.

    Of two weights that are nearly as good, it is the larger one, because the expert on objects is often sure of itself
    where it is wrong. A larger size takes longer, so it must be better by twice as much."""
    if not scores:
        return default
    scores = {setting: score + CLEARLY * setting[0] for setting, score in scores.items()}
    own = {setting: score for setting, score in scores.items() if setting[1] == default[1]}
    best, larger = max(own, key=own.__getitem__), max(scores, key=scores.__getitem__)
    best = best if own[best] > own[default] + CLEARLY else default
    return larger if scores[larger] > scores[best] + 2 * CLEARLY else best


def _offsets(pixels: Sequence[Pixels], setting: Setting) -> tuple[float, ...]:
    """Numbers that are added to the log-probability of each class, chosen one class after the other, so that a class
    that claims too much or too little on held-out parts claims less or more; nothing if that is not clearly better."""
    before = best = _score(pixels, setting)
    offsets = [0.0] * len(pixels[0].compared)
    for _ in range(2):
        for n in range(len(offsets)):
            for step in OFFSETS:
                trial = [*offsets[:n], step, *offsets[n + 1 :]]
                if (value := _score(pixels, setting, trial)) > best:
                    offsets, best = trial, value
    return tuple(offsets) if best > before + CLEARLY else ()
