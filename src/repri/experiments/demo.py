"""What each term of the objective does, after the paper's first figure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from repri.data.scenes import SceneTask, make_task
from repri.files import atomic
from repri.inference import InferenceConfig, infer
from repri.models.filters import FilterBank

__all__ = ["LOSSES", "SHOWN", "DemoTask", "draw", "mean_iou", "run"]

LOSSES = {"CE": "original-ce", "CE + H": "original-ce_h", "CE + H + KL": "original"}
"""Column of the figure → preset."""
SEEDS = range(24)
"""Tasks that are run; the means are over all of them."""
SHOWN = (0, 4, 8, 23, 1)
"""Tasks that are drawn: two where CE would do, one that H saves, one that KL saves, one where both do harm."""


class DemoTask(NamedTuple):
    task: SceneTask
    maps: dict[str, Tensor]
    """Foreground probability [H, W] of the query, by column."""
    iou: dict[str, float]


def run(seeds: Sequence[int] = SEEDS, shots: int = 1) -> list[DemoTask]:
    """Each task under each loss."""
    tasks = [make_task(seed, shots) for seed in seeds]
    bank = FilterBank()
    support = torch.stack([bank.extract(t.support) for t in tasks])
    query = bank.extract(torch.stack([t.query for t in tasks]))
    masks = torch.stack([t.support_masks for t in tasks])
    columns = {}
    for name, preset in LOSSES.items():
        out = infer(support, masks, query, InferenceConfig.preset(preset))
        columns.setdefault("initial", out.initial_probability)
        columns[name] = out.probability
    results = []
    for i, task in enumerate(tasks):
        maps = {name: upsample(p[i], task.query_mask.shape) for name, p in columns.items()}
        results.append(DemoTask(task, maps, {name: iou(p > 0.5, task.query_mask) for name, p in maps.items()}))
    return results


def mean_iou(results: Sequence[DemoTask]) -> dict[str, float]:
    """Mean over tasks, by column."""
    return {name: sum(r.iou[name] for r in results) / len(results) for name in results[0].iou}


def iou(prediction: Tensor, mask: Tensor) -> float:
    """Foreground intersection over union of one image."""
    union = (prediction | (mask == 1)).sum()
    return float((prediction & (mask == 1)).sum() / union) if union else 1.0


def draw(results: Sequence[DemoTask], path: Path) -> None:
    """One row per task: support, query, the probability maps with their IoU, ground truth."""
    from matplotlib.figure import Figure

    maps = list(results[0].maps)
    titles = ["support + mask", "query", *maps, "ground truth"]
    figure = Figure(figsize=(1.75 * len(titles), 2.05 * len(results) + 0.35), layout="constrained", dpi=110)
    axes = figure.subplots(len(results), len(titles), squeeze=False)
    for row, result in zip(axes, results, strict=True):
        task = result.task
        row[0].imshow(_outlined(task.support[0], task.support_masks[0]))
        row[1].imshow(task.query.movedim(0, -1).numpy())
        for axis, name in zip(row[2:], maps, strict=False):
            axis.imshow(result.maps[name].numpy(), vmin=0, vmax=1, cmap="viridis")
            axis.set_xlabel(f"IoU {100 * result.iou[name]:.0f}", fontsize=9)
        row[-1].imshow(_outlined(task.query, task.query_mask))
    for axis, title in zip(axes[0], titles, strict=True):
        axis.set_title(title, fontsize=9)
    for axis in axes.flat:
        axis.set_xticks([])
        axis.set_yticks([])
    with atomic(path) as temporary:
        figure.savefig(temporary)


def upsample(probability: Tensor, size: torch.Size) -> Tensor:
    return F.interpolate(probability[None, None], size=tuple(size), mode="bilinear", align_corners=False)[0, 0]


def _outlined(image: Tensor, mask: Tensor) -> np.ndarray:
    """[H, W, 3]: the object as it is, the rest faded, a red line between them."""
    inside = mask[None].float()
    grown = F.max_pool2d(inside, 7, 1, 3)
    faded = torch.where(inside > 0, image, 0.3 * image + 0.5)
    line = torch.tensor([0.9, 0.1, 0.1])[:, None, None]
    return torch.where((grown - inside) > 0, line, faded).movedim(0, -1).numpy()
