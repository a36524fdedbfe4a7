"""From the features of annotated images and of others to probabilities: one class, or several that compete."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from repri.features.extractor import FeatureExtractor
from repri.inference import infer_joint
from repri.inference.labels import IGNORE, on_one_grid
from repri.methods import Episode, Method, RePRI, Support

from .inputs import Known
from .look import CLEAN, Seen
from .presence import class_directions, presence_of, similarity

__all__ = ["Answer", "Classifier", "Shots", "shots_of"]

WHITE = 2.0
"""Length of whitened features beside plain ones of length 1, where several classes are told apart."""


@dataclass(frozen=True, eq=False)
class Shots:
    """The support: cells of the annotated images."""

    features: tuple[Tensor, ...]
    """K tensors [C, hₖ, wₖ]."""
    white: tuple[Tensor, ...]
    """K tensors [r, hₖ, wₖ] of whitened features."""
    labels: tuple[Tensor, ...]
    """K tensors [hₖ, wₖ]: 0 … N and 255, or soft values of one class."""
    masks: tuple[Tensor, ...] = ()
    """K masks [Hₖ, Wₖ] alike, at the size of the network's input, for methods that look at them; else empty."""


def shots_of(seen: Sequence[Seen], maps: Sequence[np.ndarray], classes: int, masks: bool = False) -> Shots:
    """The support of images that were looked at as a whole, and their masks [H, W], which are kept if ``masks``."""
    labels = [s.views[0].labels(m, CLEAN.cell_labels, classes) for s, m in zip(seen, maps, strict=True)]
    full = [s.views[0].mask(m) for s, m in zip(seen, maps, strict=True)] if masks else []
    return Shots(tuple(s.features for s in seen), tuple(s.white for s in seen), tuple(labels), tuple(full))


@dataclass(frozen=True, eq=False)
class Answer:
    """What the classifier says about one look at one image."""

    probability: Tensor
    """[N, h, w] at the cells."""
    proportion: Tensor
    """[N]."""
    presence: Tensor
    """[N]."""
    regions: tuple[Tensor, ...] = ()
    """For each class the regions bool [n, H, W] of which its map was made, if it was made of any."""


@dataclass(frozen=True, eq=False)
class Classifier:
    """Is fitted anew to each group of queries, because it is transductive."""

    shots: Shots
    classes: int
    """N."""
    method: Method
    extractor: FeatureExtractor
    """The extractor of the cells."""
    joint: bool
    """Whether several classes compete in one classifier; else each is fitted on its own."""

    @property
    def background(self) -> Tensor | None:
        """[C] direction of backgrounds in general, if the extractor knows it."""
        return self.extractor.background

    @property
    def _competing(self) -> bool:
        """Whether there are several classes in one classifier."""
        return self.classes > 1 and self.joint and isinstance(self.method, RePRI)

    @cached_property
    def directions(self) -> Tensor:
        """[N, r] mean directions of the classes among whitened features."""
        return class_directions(self.shots.white, self.shots.labels, self.classes)

    @cached_property
    def supports(self) -> list[Support]:
        """For each class, the support of this class against everything else."""
        grids = [self.extractor.grid((mask.shape[0], mask.shape[1])) for mask in self.shots.masks]
        supports = []
        for n in range(1, self.classes + 1):
            labels, masks = (
                maps if self.classes == 1 else [torch.where(m == IGNORE, m, (m == n).to(m.dtype)) for m in maps]
                for maps in (self.shots.labels, self.shots.masks)
            )
            supports.append(Support(self.shots.features, labels, masks or None, grids or None))
        return supports

    @cached_property
    def _joined(self) -> Tensor:
        return self._join(on_one_grid(self.shots.features), on_one_grid(self.shots.white))

    def _join(self, features: Tensor, white: Tensor) -> Tensor:
        """[…, C, h, w] and […, r, h, w] together: whitened features tell kinds of objects apart, plain ones objects
        from backgrounds. Those of a discriminant head do both."""
        if self.background is not None:
            return features
        return torch.cat([F.normalize(features.float(), dim=1), WHITE * white], 1)

    def answer(self, queries: Sequence[Seen], known: Known) -> list[Answer]:
        """Probabilities, proportions and presences of several queries, which share the pass over the support."""
        if self._competing and isinstance(self.method, RePRI):
            probability, proportion = self._together(self.method, queries, known.point)
        else:
            each = [self._one(queries, n, known) for n in range(self.classes)]
            probability = [torch.stack(maps) for maps in zip(*(maps for maps, _ in each), strict=True)]
            proportion = torch.stack([values for _, values in each], 1)
        presence = [presence_of(similarity(seen.white, seen.valid, self.directions)) for seen in queries]
        return [Answer(*values) for values in zip(probability, proportion, presence, strict=True)]

    def one_map(self, answer: Answer, known: Known) -> Answer:
        """The answer for an image at its own size, where several classes compete for its pixels: classes that are
        absent, or are known to be, leave their pixels to the others, unless their proportion was given. If nothing is
        known, the likeliest class always stays."""
        if self.classes == 1 and known.there is None:
            return answer
        presence = answer.presence
        if known.there is not None:
            there = torch.tensor(known.there)
            presence = there.float()
        else:
            there = (presence >= 0.5) | (presence == presence.max()) | (known.point is not None)
        absent = answer.probability[~there].sum(0)
        kept = answer.probability * there[:, None, None]
        # In one classifier all claims sum to 1; each on its own, they may claim more than all.
        left = (1 - absent).clamp_min(1e-6) if self._competing else kept.sum(0).clamp_min(1)
        return Answer(kept / left, answer.proportion * there, presence)

    def _together(
        self, method: RePRI, queries: Sequence[Seen], point: tuple[float, ...] | None
    ) -> tuple[list[Tensor], Tensor]:
        """[N, h, w] of each query and [T, N]: all classes in one softmax."""
        config = method.config if point is None else method.config.oracle()
        features, white = (on_one_grid(maps) for maps in zip(*((q.features, q.white) for q in queries), strict=True))
        valid = on_one_grid([q.valid for q in queries], False)
        labels = on_one_grid(self.shots.labels, IGNORE)
        joined = self._join(features, white)
        out = infer_joint(self._joined, labels, joined, self.classes, config, valid, point, self.background)
        maps = [p[1:, : q.valid.shape[0], : q.valid.shape[1]] for p, q in zip(out.probability, queries, strict=True)]
        return maps, out.proportion[:, 1:]

    def _one(self, queries: Sequence[Seen], n: int, known: Known) -> tuple[list[Tensor], Tensor]:
        """[h, w] of each query and [T]: one class against everything else."""
        point = None if known.point is None else known.point[n]
        first = self._predict(queries, n, [point] * len(queries))
        maps, values = [p.logits.sigmoid() for p in first], [p.proportion for p in first]
        proportion = torch.tensor([m.mean() if v is None else v for m, v in zip(maps, values, strict=True)])
        if known.limits is None:
            return maps, proportion
        bounded = proportion.clamp(*known.limits)
        outside = (bounded != proportion).nonzero()[:, 0].tolist()
        if outside:
            again = self._predict([queries[i] for i in outside], n, [float(bounded[i]) for i in outside])
            for i, prediction in zip(outside, again, strict=True):
                maps[i] = prediction.logits.sigmoid()
        return maps, bounded

    def _predict(self, queries: Sequence[Seen], n: int, told: Sequence[float | None]):
        episodes = [
            Episode(self.supports[n], seen.features, seen.valid, pi, self.background, self.extractor.widths)
            for seen, pi in zip(queries, told, strict=True)
        ]
        return self.method.predict_many(episodes)
