"""How well would it work on these images? Segment the queries of each draw, and score them.

The score of a draw is the mean over the classes of ΣI / ΣU, where the sums go over the queries. Classes without a union
are left out.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

from repri.data.io.images import read_image
from repri.data.io.masks import IGNORE
from repri.segmenter.segmenter import Segmenter

from .draws import Draw, Plan, TrialFolder
from .scribbles import scribble
from .settings import TrialSettings

__all__ = [
    "Figure",
    "FolderResult",
    "Outcome",
    "ScoredDraw",
    "advice",
    "count_classes",
    "mean_figure",
    "run_draw",
    "segmenters",
]

SAMPLES = 1000
"""Number of samples of a bootstrap."""
KEPT = 480
"""Longest side of the masks that are kept for a sheet of images."""
RISE = 0.02
"""Rise of the IoU from which on more annotation is worth it."""
TOLD = "told"
"""Name of the method that is told which classes each query shows."""
PARAMS: Mapping[str, Mapping[str, Any]] = {
    "auto": {},
    TOLD: {},
    "regions": {"refine": "regions"},
    "auto-ce": {"method": "ce"},
    "auto-ce_h": {"method": "ce_h"},
    "default": {"auto": False},
    "forest": {"extractor": "lowlevel", "method": "forest", "size": 320, "refine": "none", "auto": False},
    "prototype": {"method": "prototype", "auto": False},
    "ce": {"method": "ce", "auto": False},
    "ce_h": {"method": "ce_h", "auto": False},
}
"""Name of a tried method → parameters of its segmenter."""


def segmenters(name: str, extractor: Any = "default") -> Segmenter:
    """The segmenter of a method that is tried.

    Args:
        name: One of :data:`repri.segmenter.trial.settings.TRIED`.
        extractor: An extractor or its name, for all methods but ``forest``.

    Returns:
        The segmenter, whose extractor and method are known to exist.
    """
    segmenter = Segmenter(**{"extractor": extractor, **PARAMS[name]})
    _ = segmenter.inference  # loads the extractor, so that mistakes are told early and no fit is timed with it
    return segmenter


class Figure(NamedTuple):
    """An IoU between 0 and 1."""

    iou: float
    interval: tuple[float, float]
    """95 % interval by a bootstrap over queries; NaN if there are too few of them."""


@dataclass(frozen=True, eq=False)
class ScoredDraw:
    """The result of one draw."""

    draw: Draw
    hits: np.ndarray
    """[queries, classes] int: pixels of the intersection."""
    unions: np.ndarray
    """[queries, classes] int: pixels of the union."""
    fit_s: float
    """Seconds that the fit took."""
    query_s: float
    """Seconds for each query."""
    choice: str | None = None
    """The choice that the segmenter made by itself, as a sentence."""
    masks: tuple[np.ndarray, ...] = field(default=(), repr=False)
    """Predicted masks of the queries, reduced; only where they are kept for a sheet."""

    @property
    def query_ious(self) -> np.ndarray:
        """[queries] mean IoU over the classes of each query; NaN where there is neither truth nor prediction."""
        return _mean(_ratio(self.hits, self.unions))


@dataclass(frozen=True, eq=False)
class Outcome:
    """The result of one method with one number of shots, over all draws. All IoUs lie between 0 and 1."""

    method: str
    shots: int
    classes: tuple[str, ...]
    draws: tuple[ScoredDraw, ...]

    @property
    def per_draw(self) -> np.ndarray:
        """[draws] mean over the classes of ΣI / ΣU over the queries; classes without a union are left out."""
        return _mean(self._class_ious())

    @property
    def iou(self) -> float:
        """Mean over the draws."""
        return float(_mean(self.per_draw))

    @property
    def std(self) -> float:
        """Standard deviation over the draws; NaN if there is one draw only."""
        known = self.per_draw[~np.isnan(self.per_draw)]
        return float(known.std()) if len(known) > 1 else float("nan")

    @property
    def fit_s(self) -> float:
        """Seconds of a fit, mean over the draws."""
        return float(np.mean([scored.fit_s for scored in self.draws]))

    @property
    def query_s(self) -> float:
        """Seconds for each query, mean over the draws."""
        return float(np.mean([scored.query_s for scored in self.draws]))

    @property
    def figure(self) -> Figure:
        """The IoU and its interval."""
        return Figure(self.iou, _interval(self.samples()))

    @property
    def class_figures(self) -> dict[str, Figure]:
        """Class → its IoU and interval."""
        ious, samples = _mean(self._class_ious().T), _mean(self._resampled(0).T)  # [classes], [classes, samples]
        figures = [Figure(float(iou), _interval(row)) for iou, row in zip(ious, samples, strict=True)]
        return dict(zip(self.classes, figures, strict=True))

    def samples(self, seed: int = 0) -> np.ndarray:
        """Bootstrap over the queries of each draw.

        Args:
            seed: Seed of the bootstrap.

        Returns:
            [samples] mean IoU over the draws.
        """
        return _mean(_mean(self._resampled(seed)).T)

    def _resampled(self, seed: int) -> np.ndarray:
        """[draws, samples, classes] ΣI / ΣU of queries that are drawn again with replacement."""
        rng, drawn = np.random.default_rng(seed), []
        for scored in self.draws:
            queries = len(scored.hits)
            weights = rng.multinomial(queries, np.full(queries, 1 / queries), SAMPLES)
            drawn.append(_ratio(weights @ scored.hits, weights @ scored.unions))
        return np.stack(drawn)

    def _class_ious(self) -> np.ndarray:
        """[draws, classes] ΣI / ΣU."""
        return np.stack([_ratio(scored.hits.sum(0), scored.unions.sum(0)) for scored in self.draws])


@dataclass(frozen=True, eq=False)
class FolderResult:
    """Everything about one folder of a trial."""

    label: str
    """Name of the folder, which no other folder of the trial has."""
    folder: TrialFolder
    plan: Plan
    outcomes: tuple[Outcome, ...]


def count_classes(mask: np.ndarray, truth: np.ndarray, classes: int) -> tuple[list[int], list[int]]:
    """Pixels of the intersection and of the union, for each class.

    Args:
        mask: The predicted mask [H, W]: 0 … N.
        truth: The true mask [H, W]: 0 … N, and 255 for pixels that do not count.
        classes: N.

    Returns:
        The intersections and the unions.

    Example:
        >>> count_classes(np.array([[1, 1, 2, 1]]), np.array([[1, 0, 2, 255]]), 2)
        ([1, 1], [2, 1])
    """
    known, hits, unions = truth != IGNORE, [], []
    for n in range(1, classes + 1):
        predicted, true = (mask == n) & known, truth == n
        hits.append(int((predicted & true).sum()))
        unions.append(int((predicted | true).sum()))
    return hits, unions


def run_draw(
    segmenter: Segmenter,
    folder: TrialFolder,
    draw: Draw,
    settings: TrialSettings,
    keep: bool = False,
    told: bool = False,
) -> ScoredDraw:
    """Fit the segmenter to the support of a draw, segment the queries and count their pixels.

    Args:
        segmenter: The segmenter of one method.
        folder: The annotated images.
        draw: The support and the queries.
        settings: Whether the support has scribbles, and the size of batches.
        keep: Whether the predicted masks are kept, reduced, for a sheet of images.
        told: Whether the segmenter is told which classes each query shows.

    Returns:
        The counts and the times.
    """
    maps = [folder.mask(i) for i in draw.support]
    if settings.scribbles:
        maps = [scribble(mask, (settings.seed, i)) for mask, i in zip(maps, draw.support, strict=True)]
    images = [read_image(folder.items[i].image) for i in draw.support]
    start = time.perf_counter()
    fitted = segmenter.fit_maps(images, maps, folder.classes)
    fit_s = time.perf_counter() - start
    queries = [folder.items[i].image for i in draw.queries]
    present = {str(q): folder.shown(i) for q, i in zip(queries, draw.queries, strict=True)} if told else None
    hits, unions, masks, spent, start = [], [], [], 0.0, time.perf_counter()
    for i, result in zip(draw.queries, fitted.segment_many(queries, settings.batch, present=present), strict=True):
        spent += time.perf_counter() - start
        hit, union = count_classes(result.mask, folder.mask(i), len(folder.classes))
        hits.append(hit)
        unions.append(union)
        if keep:
            masks.append(_reduced(result.mask))
        start = time.perf_counter()
    return ScoredDraw(
        draw,
        np.array(hits),
        np.array(unions),
        fit_s,
        spent / len(draw.queries),
        str(fitted.choice) if fitted.choice.scores else None,
        tuple(masks),
    )


def _reduced(mask: np.ndarray) -> np.ndarray:
    """A mask whose longer side has at most KEPT pixels."""
    scale = min(1, KEPT / max(mask.shape))
    size = (max(1, round(scale * mask.shape[1])), max(1, round(scale * mask.shape[0])))
    return np.asarray(Image.fromarray(mask).resize(size, Image.Resampling.NEAREST))


def mean_figure(outcomes: Sequence[Outcome]) -> Figure:
    """The mean over folders of one method with one number of shots.

    Args:
        outcomes: One outcome for each folder.

    Returns:
        The mean IoU and its interval. The bootstrap is over the queries of each folder.
    """
    samples = [outcome.samples(seed=place) for place, outcome in enumerate(outcomes)]
    return Figure(float(_mean(np.array([outcome.iou for outcome in outcomes]))), _interval(_mean(np.stack(samples).T)))


def advice(results: Mapping[str, Sequence[Outcome]]) -> str:
    """One sentence that says what to expect of the best method, and whether more annotation is worth it.

    Args:
        results: Folder → its outcomes.

    Returns:
        The sentence. For several folders it is about their mean, with the numbers of shots that all of them allow.
    """
    figures: dict[tuple[int, str], Figure] = {}
    for shots, method in dict.fromkeys((o.shots, o.method) for outcomes in results.values() for o in outcomes):
        same = [o for outcomes in results.values() for o in outcomes if (o.shots, o.method) == (shots, method)]
        if len(same) == len(results):
            figures[shots, method] = mean_figure(same)
    if not figures:
        return "The folders have no number of shots in common, so there is no mean over them."
    most = max(shots for shots, _ in figures)
    last = {method: figure for (shots, method), figure in figures.items() if shots == most}
    method = max(last, key=lambda name: np.nan_to_num(last[name].iou, nan=-1))
    best, several = last[method], any(len(o.classes) > 1 for outcomes in results.values() for o in outcomes)
    if np.isnan(best.iou):
        return "No query shows an object, so there is no IoU: add images that show it."
    images = f"{most} annotated image{'s' * (most != 1)}{' of each class' * several}"
    low, high = best.interval
    sure = "" if np.isnan(low) else f" ({low:.2f} to {high:.2f})"
    where = f", as a mean over the {len(results)} folders," if len(results) > 1 else ""
    text = f"With {images} and the method {method} expect an IoU of about {best.iou:.2f}{sure}{where}"
    before = max((shots for shots, name in figures if name == method and shots < most), default=None)
    if before is None:
        return text.rstrip(",") + "."
    rise = best.iou - figures[before, method].iou
    if rise >= RISE:
        change = f"rose by {rise:.2f}, so more annotation is still worth it"
    elif rise > -RISE:
        change = "hardly changed, so more annotation will help little"
    else:
        change = f"fell by {-rise:.2f}, so better images help more than further ones"
    return f"{text.rstrip(',')}; from {before} to {most} it {change}."


def _ratio(hits: np.ndarray, unions: np.ndarray) -> np.ndarray:
    """hits / unions; NaN where there is no union."""
    return np.where(unions > 0, hits / np.maximum(unions, 1), np.nan)


def _mean(values: np.ndarray) -> np.ndarray:
    """The mean over the last axis of what is not NaN; NaN where there is nothing else."""
    known = ~np.isnan(values)
    count = known.sum(-1)
    return np.where(count > 0, np.where(known, values, 0).sum(-1) / np.maximum(count, 1), np.nan)


def _interval(samples: np.ndarray) -> tuple[float, float]:
    """The middle 95 % of bootstrap samples; NaN if all of them are equal, because then they say nothing."""
    known = samples[~np.isnan(samples)]
    if not len(known) or np.ptp(known) == 0:
        return float("nan"), float("nan")
    return float(np.percentile(known, 2.5)), float(np.percentile(known, 97.5))
