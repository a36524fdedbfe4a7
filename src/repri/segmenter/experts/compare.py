"""A support and the two experts, fitted to parts of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from repri.features.extractor import FeatureExtractor
from repri.inference import InferenceConfig
from repri.inference.labels import IGNORE
from repri.methods import Method
from repri.refine import get_refiner
from repri.segmenter.classify import Classifier, shots_of
from repri.segmenter.inputs import Known
from repri.segmenter.logistic import make_classifier, steps_of
from repri.segmenter.look import Look, Seen
from repri.segmenter.threads import all_of

from .blend import likeness, sameness
from .copies import resized_image, resized_mask
from .heldout import HeldOut
from .learned import LearnSettings
from .textures import COPIES, Sheet, Textures, fit_textures, sheet_of, sheets_of, width_of, working_scale

__all__ = ["Compare", "Sight"]

LARGEST = 1024
"""Longest side of the images by which settings are compared."""
FEW = 1.2
"""Mean width of an object, in cells, below which it is small; that of a disc is 0.4 times its diameter."""
UNIFORM = 0.33
"""Mean cosine of two cells of an image above which it is all of one kind: only 5 % of PASCAL's photographs have more
(median 0.21). Images of microscopes, surfaces and fields mostly have 0.43 to 0.59."""
QUICK = LearnSettings(members=1, steps=100, hidden=32)
"""Training of the networks that are only compared."""


class Sight(NamedTuple):
    """How the expert on objects works."""

    size: int
    """Long side in pixels at which it looks at images."""
    logistic: bool = False
    """Whether its classifier is a logistic regression on all labelled cells; else RePRI's prototypes."""

    def __str__(self) -> str:
        return f"{self.size} pixels{', logistic' if self.logistic else ''}"


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
    _seen: dict[tuple[int, int], Seen] = field(default_factory=dict, init=False, repr=False)
    _sheets: dict[int, list[Sheet]] = field(default_factory=dict, init=False, repr=False)
    _experts: dict[int, Textures] = field(default_factory=dict, init=False, repr=False)
    _classifiers: dict[tuple[int, Sight], Classifier] = field(default_factory=dict, init=False, repr=False)

    def reduced(self) -> Compare:
        """The same support with images of at most 1024 pixels, which is enough to compare settings."""
        factor = min(1.0, LARGEST / max(max(image.shape[:2]) for image in self.images))
        if factor == 1:
            return self
        sizes = [(max(1, round(m.shape[0] * factor)), max(1, round(m.shape[1] * factor))) for m in self.maps]
        images = [resized_image(image, size) for image, size in zip(self.images, sizes, strict=True)]
        maps = [resized_mask(mask, size) for mask, size in zip(self.maps, sizes, strict=True)]
        return replace(self, images=images, maps=maps, factor=factor)

    @property
    def device(self) -> torch.device:
        """Where the extractor runs."""
        return torch.device(getattr(self.look.extractor, "device", "cpu"))

    @cached_property
    def scale(self) -> float:
        """Factor by which images are resized for the expert on textures."""
        return working_scale(self.images, self.maps)

    @cached_property
    def steps(self) -> InferenceConfig:
        """Steps of the expert on textures on a query, with the terms that the method has."""
        return steps_of(self.method)

    def prepare(self, parts: Sequence[HeldOut], sights: Sequence[Sight]) -> None:
        """Compute what the parts have in common; the cores share the work."""
        sizes = sorted({sight.size for sight in sights}, reverse=True)
        places, folds = range(len(self.images)), {part.fold: part for part in parts}.values()
        cells = [partial(self.seen, k, size) for size in sizes for k in places]
        classifiers = [partial(self._classifier, part, sight) for sight in sights for part in folds]
        all_of([*cells, *(partial(self.sheets, k) for k in places)], self.device)
        all_of([*(partial(self._expert, part) for part in folds), *classifiers], self.device)

    def sheets(self, place: int) -> list[Sheet]:
        """Small cells of an image of the support and of its varied copies."""
        if place not in self._sheets:
            copies = min(4, max(1, COPIES // len(self.images)))
            self._sheets[place] = sheets_of(self.small, self.images[place], self.scale, copies, place)
        return self._sheets[place]

    def seen(self, place: int, size: int) -> Seen:
        """Large cells of an image of the support."""
        if (place, size) not in self._seen:
            self._seen[place, size] = Look(self.look.extractor, size).see(self.images[place])
        return self._seen[place, size]

    @cached_property
    def width(self) -> float:
        """Width of the support's objects in cells of the expert on objects (median of the images)."""
        look, sides = self.look, [max(image.shape[:2]) for image in self.images]
        widths = [look.size / side * width_of(mask) for side, mask in zip(sides, self.maps, strict=True)]
        return float(np.median(widths)) / look.extractor.stride

    @property
    def small_objects(self) -> bool:
        """Whether the objects of the support are small for the cells of the expert on objects."""
        return self.width < FEW

    @cached_property
    def uniform(self) -> bool:
        """Whether the images of the support are each all of one kind, as under a microscope or on a surface."""
        cells = [self.seen(k, self.look.size) for k in range(len(self.images))]
        return float(np.median([sameness(seen.white[:, seen.valid]) for seen in cells])) > UNIFORM

    @property
    def scribbled(self) -> bool:
        """Whether most pixels of some image have no label."""
        return any((mask == IGNORE).mean() > 0.5 for mask in self.maps)

    @property
    def better_refine(self) -> str | None:
        """Refinement that suits the size of the objects, if it is another one."""
        return "fine" if self.refine == "guided" and self.small_objects else None

    def _expert(self, part: HeldOut) -> Textures:
        """The expert on textures that knows what a part does not show."""
        if part.fold not in self._experts:
            sheets = [self.sheets(k)[:3] for k in part.known]
            settings = (len(part.classes), self.scale, QUICK, self.steps, self.scribbled)
            self._experts[part.fold] = fit_textures(self.small, sheets, part.maps, *settings)
        return self._experts[part.fold]

    def _classifier(self, part: HeldOut, sight: Sight) -> Classifier:
        """The expert on objects that knows what a part does not show."""
        if (part.fold, sight) not in self._classifiers:
            known, masks = [self.seen(k, sight.size) for k in part.known], self.method.needs_masks
            shots = shots_of(known, part.maps, len(part.classes), masks)
            settings = (len(part.classes), self.method, self.look.extractor, self.joint)
            self._classifiers[part.fold, sight] = make_classifier(sight.logistic, shots, *settings)
        return self._classifiers[part.fold, sight]

    def textures(self, part: HeldOut) -> Tensor:
        """[N + 1, H, W] log-probabilities of a held-out part by the expert on textures."""
        expert = self._expert(part)
        if part.place is not None:
            return expert.logs_of(self.sheets(part.place)[0])
        return expert.logs_of(sheet_of(self.small, part.image, self.scale))

    def fitted(self) -> Textures:
        """The expert on textures that is fitted to the whole support."""
        settings = (self.classes, self.scale, None, self.steps, self.scribbled)
        sheets = all_of([partial(self.sheets, k) for k in range(len(self.images))], self.device)
        fitted = fit_textures(self.small, sheets, self.maps, *settings)
        return replace(fitted, scale=self.factor * fitted.scale)

    def objects(self, part: HeldOut, sight: Sight) -> tuple[Tensor, float]:
        """[N, H, W] probabilities of a held-out part by the expert on objects, and how much it looks like the rest."""
        fitted, place = self._classifier(part, sight), part.place
        query = Look(self.look.extractor, sight.size).see(part.image) if place is None else self.seen(place, sight.size)
        nothing = Known(None, None)
        answer = fitted.answer([query], nothing)[0]
        whole = fitted.one_map(replace(answer, probability=query.restore(answer.probability)), nothing)
        refine = get_refiner(self.better_refine or self.refine)
        return refine(whole.probability, part.image), likeness(query, fitted.shots.white)

    @property
    def least_proportion(self) -> float:
        """Half of the smallest proportion of a single class in the support; 0 for scribbles, which tell none."""
        if self.classes > 1 or self.scribbled:
            return 0.0
        return min(float(mask[mask != IGNORE].mean()) for mask in self.maps) / 2
