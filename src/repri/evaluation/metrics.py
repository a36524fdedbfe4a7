"""Few-shot segmentation's mIoU: intersections and unions summed over a class's tasks, then divided.

Per run, IoU_c = Σ I / Σ U over the tasks of class c; mIoU is the mean over classes, then over runs (§4). FB-IoU
is the mean of the foreground's and the background's IoU with all classes pooled.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from torch import Tensor

from repri.inference.labels import IGNORE
from repri.runtime.errors import RepriError

__all__ = ["Counts", "Scores", "bootstrap", "count_pixels", "paired_interval", "running_miou", "scores"]


class Counts(NamedTuple):
    """The pixel counts of tasks: one entry per task."""

    run: np.ndarray
    """[N] run of each task."""
    class_id: np.ndarray
    """[N] class of each task."""
    pixels: np.ndarray
    """[N, 4] int64: foreground intersection and union, background intersection and union."""


class Scores(NamedTuple):
    """mIoU and its companions, all in percent."""

    miou: float
    fb_iou: float
    interval: tuple[float, float]
    """95 % interval of mIoU by a bootstrap over tasks within class and run."""
    std_runs: float
    """Standard deviation of mIoU over runs."""
    per_run: list[float]
    per_class: dict[int, float]
    """IoU of each class, mean over runs."""


def count_pixels(prediction: Tensor, mask: Tensor) -> tuple[int, int, int, int]:
    """Foreground I, U and background I, U of a bool prediction [H, W] and a mask [H, W] of 0, 1 and 255 (ignored).

    Example:
        >>> import torch
        >>> count_pixels(torch.tensor([[True, True, False]]), torch.tensor([[1, 0, 255]]))
        (1, 2, 0, 1)
    """
    known, truth = mask != IGNORE, mask == 1
    hit = int((prediction & truth).sum())
    predicted = int((prediction & known).sum())
    true = int(truth.sum())
    total = int(known.sum())
    union = predicted + true - hit
    return hit, union, total - union, total - hit


def scores(counts: Counts, samples: int = 1000, seed: int = 0) -> Scores:
    """mIoU and its companions.

    Args:
        counts: The pixel counts of all tasks.
        samples: Number of bootstrap samples for the interval.
        seed: Seed of the bootstrap.

    Returns:
        The scores.
    """
    weights = np.ones((1, len(counts.run)))
    per_run_class = _class_iou(counts, weights)[0]  # [runs, classes]
    per_run = 100 * np.nanmean(per_run_class, 1)
    boot = bootstrap(counts, samples, seed)
    classes = np.unique(counts.class_id)
    return Scores(
        miou=float(per_run.mean()),
        fb_iou=_fb_iou(counts),
        interval=(float(np.percentile(boot, 2.5)), float(np.percentile(boot, 97.5))),
        std_runs=float(per_run.std(ddof=1)) if len(per_run) > 1 else 0.0,
        per_run=per_run.tolist(),
        per_class={int(c): float(100 * np.nanmean(per_run_class[:, i])) for i, c in enumerate(classes)},
    )


def running_miou(counts: Counts) -> float:
    """mIoU so far in percent, over all runs together."""
    values = []
    for c in np.unique(counts.class_id):
        hit, union = counts.pixels[counts.class_id == c, :2].sum(0)
        values.append(hit / max(union, 1))
    return 100 * float(np.mean(values))


def bootstrap(counts: Counts, samples: int = 1000, seed: int = 0) -> np.ndarray:
    """[samples] mIoU of resampled tasks; the same seed resamples the same tasks of equal lists."""
    rng = np.random.default_rng(seed)
    cells = [(r, c) for r in np.unique(counts.run) for c in np.unique(counts.class_id)]
    groups = [np.nonzero((counts.run == r) & (counts.class_id == c))[0] for r, c in cells]
    values = []
    for start in range(0, samples, 100):
        weights = np.zeros((min(100, samples - start), len(counts.run)))
        for members in filter(len, groups):
            weights[:, members] = rng.multinomial(len(members), np.full(len(members), 1 / len(members)), len(weights))
        values.append(100 * np.nanmean(np.nanmean(_class_iou(counts, weights), 2), 1))
    return np.concatenate(values)


def paired_interval(first: Counts, second: Counts, samples: int = 1000, seed: int = 0) -> tuple[float, float, float]:
    """Second's mIoU minus first's on the same tasks, and its 95 % interval."""
    if not (np.array_equal(first.run, second.run) and np.array_equal(first.class_id, second.class_id)):
        raise RepriError("The two results are not of the same tasks.")
    difference = bootstrap(second, samples, seed) - bootstrap(first, samples, seed)
    ones = np.ones((1, len(first.run)))
    centre = [100 * float(np.nanmean(np.nanmean(_class_iou(c, ones), 2))) for c in (first, second)]
    return centre[1] - centre[0], float(np.percentile(difference, 2.5)), float(np.percentile(difference, 97.5))


def _class_iou(counts: Counts, weights: np.ndarray) -> np.ndarray:
    """[B, runs, classes] ΣI/ΣU under task weights [B, N]; NaN where a run has no task of a class."""
    runs, classes = np.unique(counts.run), np.unique(counts.class_id)
    cell = np.searchsorted(runs, counts.run) * len(classes) + np.searchsorted(classes, counts.class_id)
    member = np.zeros((len(cell), len(runs) * len(classes)))
    member[np.arange(len(cell)), cell] = 1
    sums = [(weights * counts.pixels[:, k]) @ member for k in (0, 1)]
    seen = weights @ member > 0
    with np.errstate(invalid="ignore", divide="ignore"):
        # If the unions of all tasks of a class are empty, it was predicted perfectly.
        iou = np.where(sums[1] > 0, sums[0] / sums[1], np.where(seen, 1.0, np.nan))
    return iou.reshape(len(weights), len(runs), len(classes))


def _fb_iou(counts: Counts) -> float:
    """Percent, per run, then the mean."""
    values = []
    for run in np.unique(counts.run):
        sums = counts.pixels[counts.run == run].sum(0)
        values.append(100 * (sums[0] / max(sums[1], 1) + sums[2] / max(sums[3], 1)) / 2)
    return float(np.mean(values))
