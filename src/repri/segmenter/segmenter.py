"""The object that fits to annotated pictures and segments others."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from repri.features.view import Geometry, geometry, resize_image, restore, step_of
from repri.inference import InferenceConfig
from repri.inference.problem import on_one_grid
from repri.models import FeatureExtractor, StitchedExtractor, load_extractor
from repri.refine.guided import guided
from repri.runtime.parallel import parallel, usable_cores

from .classify import Classifier
from .inputs import Picture, Proportion, Shares, as_picture, check_names, load_shots, name_of, shares_of
from .support import build_support, cell_labels, shows
from .threads import side_by_side
from .tiles import starts, window

__all__ = ["THREADS", "Segmentation", "Segmenter"]

THREADS = min(4, usable_cores())
"""That write what was found; more would only hold more of it in memory."""


@dataclass(frozen=True, eq=False)
class Segmentation:
    """What was found in one picture, at its own size."""

    source: str
    """The file, or where in the sequence it came."""
    picture: np.ndarray
    """[H, W, 3] uint8, upright."""
    mask: np.ndarray
    """[H, W] uint8: 0 background, 1 … N the classes."""
    probability: np.ndarray
    """[H, W] float32 of the object; [N, H, W] if there are several classes."""
    proportion: float | dict[str, float]
    """Estimated (or given) share of the object in the picture; by name if there are several classes, 0 of one that is
    rather not there."""
    confidence: float
    """IoU that the probabilities themselves expect of the mask, mean over the classes found; 1 if none is."""
    presence: float | dict[str, float]
    """How probable it is that the picture shows the object, by what kind of thing its most similar part is, if every
    other picture does; by name if there are several classes."""

    @property
    def present(self) -> bool:
        """Whether any class is there rather than not."""
        scores = self.presence.values() if isinstance(self.presence, dict) else [self.presence]
        return max(scores) >= 0.5


class _View(NamedTuple):
    """A picture as the network sees it."""

    image: Tensor
    """[3, H, W]."""
    where: Geometry


class Segmenter:
    """Fits to a few annotated pictures, then segments any number of others.

    extractor   a name for :func:`repri.load_extractor` or an extractor; default: the embedded model
    config      inference settings, the name of a preset, or changes to the default one, which is the extractor's
                (``clean``, or ``discriminant`` with such a head) unless ``form`` names another; a known proportion has
                its own, those of the oracle
    size        long side at which pictures are looked at; default: what the extractor wants
    shifts      look at so many shifted copies of a picture along each side: finer features, for the square of the time
    refine      borders follow the picture's edges (a guided filter) instead of the feature grid
    mirror      average over the picture and its mirror image: twice the time
    scales      average over several sizes, as factors
    tile        pictures whose long side is larger are looked at in overlapping tiles of that many pixels, which share
                one classifier; None: always as a whole
    joint       several classes compete in one classifier; False: each on its own, the most probable wins
    """

    def __init__(
        self,
        extractor: str | Path | FeatureExtractor = "default",
        *,
        config: str | InferenceConfig | Mapping[str, Any] | None = None,
        size: int | None = None,
        shifts: int = 1,
        device: str = "cpu",
        refine: bool = True,
        mirror: bool = False,
        scales: Sequence[float] = (1.0,),
        tile: int | None = None,
        joint: bool = True,
    ):
        if not isinstance(extractor, FeatureExtractor):
            place: dict[str, Any] = {} if extractor == "filters" else {"device": device}
            extractor = load_extractor(extractor, **place)
        self.extractor = extractor = extractor if shifts == 1 else StitchedExtractor(extractor, shifts)
        self.config = _config_of(config, extractor)
        self.size = extractor.rule.size if size is None else size
        if self.size < extractor.stride:
            raise ValueError(f"size must be at least {extractor.stride} pixels, got {self.size}")
        if not scales or min(scales) <= 0:
            raise ValueError(f"scales must be factors above 0, got {tuple(scales)}")
        if tile is not None and tile < 2 * extractor.stride:
            raise ValueError(f"tile must be at least {2 * extractor.stride} pixels, got {tile}")
        self.refine, self.mirror, self.scales, self.tile, self.joint = refine, mirror, tuple(scales), tile, joint
        self._device = torch.device(getattr(extractor, "device", "cpu"))
        self.classes: tuple[str, ...] = ()
        self._classifier: Classifier | None = None

    def fit(
        self,
        images: Picture | Sequence[Picture] | Mapping[str, Any],
        masks: Any = None,
        *,
        boxes: Any = None,
        scribbles: Any = None,
        classes: Sequence[str] | None = None,
    ) -> Segmenter:
        """Take the annotated pictures.

        images     one or several; or for several classes ``{"cat": images, "dog": images}``
        masks      alike: files or arrays, 0 background, 1 the object (or 1 … N the ``classes``), 255 neither; of two
                   levels 0 and 255, 255 is the object
        boxes      instead of masks: for each picture (left, top, right, bottom) in pixels, or several of them
        scribbles  instead of masks: for each picture an array, 1 on the object, 0 on the background, 255 elsewhere
        """
        names, pictures, maps = load_shots(images, {"masks": masks, "boxes": boxes, "scribbles": scribbles}, classes)
        return self.fit_maps(pictures, maps, names)

    def fit_maps(self, images: Sequence[np.ndarray], maps: Sequence[np.ndarray], classes: Sequence[str]) -> Segmenter:
        """The same from arrays: pictures [H, W, 3] uint8; maps [H, W] of 0 … N and 255, or soft ones of one class."""
        names = check_names(classes)
        for n, name in enumerate(names, 1):
            if not any(shows(mask, n, len(names)) for mask in maps):
                raise ValueError(f"no mask shows {name!r}: mark it in at least one picture")
        features, white, labels = [], [], []
        for image, mask in zip(images, maps, strict=True):
            view = self._view(image)
            features.append(self._extract(view.image[None])[0])
            white.append(self._white(features[-1], view))
            cells = (features[-1].shape[-2], features[-1].shape[-1])
            labels.append(cell_labels(mask, view.where, cells, self._step(cells, view.where), len(names)))
        support = build_support(features, white, labels, len(names))
        self._classifier = Classifier(support, len(names), self.config, self.extractor.background, self.joint)
        self.classes = names
        return self

    def segment(self, image: Picture, proportion: Proportion | None = None) -> Segmentation:
        """One picture."""
        return next(self.segment_many([image], batch=1, proportion=proportion))

    def segment_many(
        self,
        images: Iterable[Picture],
        batch: int = 8,
        proportion: Proportion | None = None,
        on_error: Callable[[str, ValueError], None] | None = None,
    ) -> Iterator[Segmentation]:
        """One result for each picture, in order; ``batch`` of them are worked on at once, and up to twice as many have
        been read or wait to be taken.

        ``on_error`` is called with the name of a picture that cannot be used, and what is wrong with it; there is no
        result for it then. Without it, such a picture is an error.
        """
        if self._classifier is None:
            raise ValueError("there is no support yet: call fit first")
        if batch < 1:
            raise ValueError(f"batch must be at least 1, got {batch}")
        shares = shares_of(proportion, self.classes)
        fitted = copy.copy(self)  # as it is now: `fit` may be called before all are done
        numbered = enumerate(images)
        with side_by_side(batch, self._device) as (workers, prepare):
            groups = iter(lambda: list(islice(numbered, batch // max(1, workers))), [])

            def work(group: list[tuple[int, Picture]]) -> list[Segmentation | tuple[str, ValueError]]:
                return fitted._segment_group(group, shares)

            for found in parallel(work, groups, workers, 2, prepare):
                for result in found:
                    if isinstance(result, Segmentation):
                        yield result
                    elif on_error is None:
                        raise result[1]
                    else:
                        on_error(*result)

    @property
    def _fitted(self) -> Classifier:
        assert self._classifier is not None
        return self._classifier

    def _segment_group(
        self, group: list[tuple[int, Picture]], shares: Shares
    ) -> list[Segmentation | tuple[str, ValueError]]:
        """Of each picture what was found, or its name and what is wrong with it."""
        named = [(name_of(*item), item[1]) for item in group]
        problems: dict[int, ValueError] = {}
        pictures: dict[int, np.ndarray] = {}
        for i, (_, picture) in enumerate(named):
            try:
                pictures[i] = as_picture(picture)
            except ValueError as error:
                problems[i] = error
        maps = self._probabilities(list(pictures.values()), shares) if pictures else []
        found = {i: self._result((named[i][0], pictures[i], *m)) for i, m in zip(pictures, maps, strict=True)}
        return [found[i] if i in found else (name, problems[i]) for i, (name, _) in enumerate(named)]

    def _probabilities(self, pictures: list[np.ndarray], shares: Shares) -> list[tuple[Tensor, Tensor, Tensor]]:
        """For each picture: probabilities [N, H, W] at its size, shares [N], presence [N]."""
        total: list[Tensor | None] = [None] * len(pictures)
        first: list[tuple[Tensor, Tensor]] = []
        views = [
            (scale, mirrored) for scale in self.scales for mirrored in ((False, True) if self.mirror else (False,))
        ]
        for number, (scale, mirrored) in enumerate(views):
            found = self._one_view(pictures, scale, mirrored, shares)
            for i, (probability, proportion, presence) in enumerate(found):
                before = total[i]
                total[i] = probability if before is None else before + probability
                if number == 0:
                    first.append((proportion, presence))
        whole = [(t / len(views), *rest) for t, rest in zip(total, first, strict=True) if t is not None]
        return [self._fitted.one_map(*found, shares) for found in whole]

    def _one_view(
        self, pictures: list[np.ndarray], scale: float, mirrored: bool, shares: Shares
    ) -> list[tuple[Tensor, Tensor, Tensor]]:
        results: list[tuple[Tensor, Tensor, Tensor] | None] = [None] * len(pictures)
        groups: dict[tuple[int, int], list[int]] = {}
        views: dict[int, _View] = {}
        for i, picture in enumerate(pictures):
            if self.tile is not None and max(picture.shape[:2]) > self.tile:
                results[i] = self._tiled(picture, scale, mirrored, shares)
                continue
            views[i] = self._view(picture, scale, mirrored)
            groups.setdefault((views[i].image.shape[1], views[i].image.shape[2]), []).append(i)
        if views:
            for i, *found in zip(views, *self._together(views, list(groups.values()), shares), strict=True):
                where, cells = views[i].where, found[0]
                full = restore(cells, where, self._step((cells.shape[-2], cells.shape[-1]), where))
                results[i] = (full.flip(-1) if mirrored else full, found[1], found[2])
        return [result for result in results if result is not None]

    def _together(
        self, views: dict[int, _View], groups: list[list[int]], shares: Shares
    ) -> tuple[list[Tensor], Tensor, Tensor]:
        """Maps [N, h, w], shares and presence of pictures of any sizes, in one batch: features on a common grid, with
        what is no picture left out, so that all of them share the pass over the support."""
        features: dict[int, Tensor] = {}
        for places in groups:
            found = self._extract(torch.stack([views[i].image for i in places]))
            features |= dict(zip(places, found, strict=True))
        sizes = [(features[i].shape[-2], features[i].shape[-1]) for i in views]
        grid = on_one_grid([features[i] for i in views])
        white = on_one_grid([self._white(features[i], view) for i, view in views.items()])
        real = [
            F.interpolate(v.where.valid()[None, None].float(), size)
            for v, size in zip(views.values(), sizes, strict=True)
        ]
        valid = on_one_grid([r[0, 0].bool() for r in real], False)
        probability, proportion, presence = self._fitted.maps(grid, white, valid, shares)
        maps = [p[:, :h, :w].cpu() for p, (h, w) in zip(probability, sizes, strict=True)]
        return maps, proportion, presence

    def _tiled(
        self, picture: np.ndarray, scale: float, mirrored: bool, shares: Shares
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Tiles of equal size that overlap by a quarter or more, all in one transductive problem."""
        assert self.tile is not None
        picture = picture[:, ::-1] if mirrored else picture
        height, width = picture.shape[:2]
        side = (min(self.tile, height), min(self.tile, width))
        corners = [(top, left) for top in starts(height, side[0]) for left in starts(width, side[1])]
        views = [self._view(picture[top : top + side[0], left : left + side[1]], scale) for top, left in corners]
        features = torch.stack([self._extract(view.image[None])[0] for view in views])  # [n, C, h, w]
        white = torch.stack(list(map(self._white, features, views)))
        together, whitened = (f.movedim(0, 1).flatten(1, 2)[None] for f in (features, white))  # [1, C, n·h, w]
        valid = torch.stack([view.where.valid() for view in views])
        cells = F.interpolate(valid[None].float(), size=features.shape[-2:], mode="nearest")[0].bool()
        probability, proportion, presence = self._fitted.maps(together, whitened, cells.flatten(0, 1)[None], shares)
        maps = probability[0].unflatten(1, (len(views), -1)).movedim(1, 0).cpu()  # [n, N, h, w]
        total = torch.zeros(len(self.classes), height, width)
        weight = torch.zeros(height, width)
        weights = window(side[0])[:, None] * window(side[1])
        for (top, left), view, found in zip(corners, views, maps, strict=True):
            step = self._step((found.shape[-2], found.shape[-1]), view.where)
            place = (slice(top, top + side[0]), slice(left, left + side[1]))
            total[:, place[0], place[1]] += restore(found, view.where, step) * weights
            weight[place] += weights
        full = total / weight
        return full.flip(-1) if mirrored else full, proportion[0], presence[0]

    def _result(self, item: tuple[str, np.ndarray, Tensor, Tensor, Tensor]) -> Segmentation:
        name, picture, probability, proportion, presence = item
        if self.refine:
            colours = torch.from_numpy(picture).movedim(-1, 0).float() / 255
            probability = guided(probability, colours)
            probability = probability / probability.sum(0).clamp_min(1)
        rest = 1 - probability.sum(0)
        best, winner = probability.max(0)
        threshold = 0.5 if len(self.classes) == 1 else rest
        mask = torch.where(best > threshold, winner + 1, 0)
        expected = [
            _expected_iou(probability[n], mask == n + 1) for n in range(len(self.classes)) if (mask == n + 1).any()
        ]
        maps = probability.numpy().astype(np.float32)
        return Segmentation(
            name,
            picture,
            mask.to(torch.uint8).numpy(),
            maps[0] if len(maps) == 1 else maps,
            self._named(proportion),
            sum(expected) / len(expected) if expected else 1.0,
            self._named(presence),
        )

    def _named(self, values: Tensor) -> float | dict[str, float]:
        named = dict(zip(self.classes, values.tolist(), strict=True))
        return named if len(named) > 1 else values.item()

    def _view(self, picture: np.ndarray, scale: float = 1.0, mirrored: bool = False) -> _View:
        shape = (picture.shape[0], picture.shape[1])
        where = geometry(
            shape, "clean", max(self.extractor.stride, round(self.size * scale)), self.extractor.rule.multiple
        )
        picture = np.ascontiguousarray(picture[:, ::-1]) if mirrored else picture
        return _View(resize_image(picture, where), where)

    def _step(self, cells: tuple[int, int], where: Geometry) -> int | None:
        return step_of(self.extractor.strided, cells, where.full, self.extractor.stride)

    def _extract(self, images: Tensor) -> Tensor:
        return self.extractor.extract(images).cpu()

    def _white(self, features: Tensor, view: _View) -> Tensor:
        """[r, h, w] whitened features beside [C, h, w]: of the embedded model, if nothing is known of how the
        extractor's spread."""
        if self.extractor.whitening is not None:
            return self.extractor.whitening(features)
        judge, image = _judge(self._device), view.image[None]
        assert judge.whitening is not None
        scale = judge.rule.size / max(image.shape[-2:])
        size = [max(1, round(side * scale)) for side in image.shape[-2:]]
        found = judge.extract(F.interpolate(image, size, mode="bilinear", antialias=True))[0].cpu()
        return F.normalize(F.interpolate(judge.whitening(found)[None], features.shape[-2:], mode="bilinear")[0], dim=0)


def _config_of(
    config: str | InferenceConfig | Mapping[str, Any] | None, extractor: FeatureExtractor
) -> InferenceConfig:
    if not isinstance(config, InferenceConfig):
        if config is not None and not isinstance(config, (str, Mapping)):
            raise ValueError(f"config must be a preset's name, settings or changes to them, got {config!r}")
        changes = {"form": config} if isinstance(config, str) else dict(config or {})
        usual = "clean" if extractor.background is None else "discriminant"
        config = InferenceConfig.preset(changes.pop("form", usual)).replace(**changes)
    if config.background == "known" and extractor.background is None:
        raise ValueError(
            f"{extractor.name} knows nothing of backgrounds: discriminant is for extractors with such a head"
        )
    return config


@lru_cache(4)
def _judge(device: torch.device) -> FeatureExtractor:
    """The embedded model, which tells kinds of objects apart for extractors that have no whitening."""
    return load_extractor("distilled", device=device)


def _expected_iou(probability: Tensor, mask: Tensor) -> float:
    """Σ p inside / (pixels inside + Σ p outside)."""
    inside = (probability * mask).sum()
    return float(inside / (mask.sum() + probability.sum() - inside).clamp_min(1e-12))
