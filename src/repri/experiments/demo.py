"""One annotated photograph, and what each term of the objective makes of others, after the paper's first figure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from repri.data.datasets.scenes import make_task
from repri.data.io.formats import labelme
from repri.data.io.images import read_image
from repri.features.extractor import FeatureExtractor
from repri.features.view import resize, restore, step_of
from repri.inference import InferenceConfig, infer
from repri.runtime.files import atomic

__all__ = [
    "EXTRACTOR",
    "LOSSES",
    "PHOTOS",
    "SHOWN",
    "DemoTask",
    "Picture",
    "draw",
    "mean_iou",
    "photographs",
    "run",
    "scenes",
]

EXTRACTOR = "default-fold2"
"""The embedded model without the labels of fold 2, which has persons: here they are new, as in the paper."""
LOSSES = {"CE": "-ce", "CE + H": "-ce_h", "CE + H + KL": ""}
"""Column of the figure → variant of the extractor's preset."""
PHOTOS = (("eileen_collins", "grace_hopper"), ("eileen_collins", "photographer"), ("grace_hopper", "photographer"))
"""Which is annotated, and in which the person is looked for."""
SEEDS = range(24)
"""Generated tasks that are run; the means are over all of them."""
SHOWN = (0, 7)
"""Generated tasks that are drawn."""


class Picture(NamedTuple):
    image: np.ndarray
    """[H, W, 3] uint8."""
    mask: np.ndarray
    """[H, W] uint8, 1 on the object."""


class DemoTask(NamedTuple):
    support: Picture
    query: Picture
    maps: dict[str, Tensor]
    """Foreground probability [H, W] of the query, by column."""
    iou: dict[str, float]


def photographs() -> list[tuple[Picture, Picture]]:
    """Pairs of an annotated photograph and a query whose outline was drawn by hand too."""
    folder = Path(__file__).with_name("photos")

    def open_one(name: str) -> Picture:
        (item,) = labelme.read(folder / f"{name}.json")
        return Picture(read_image(item.image), item.ids({"person": 1}))

    pictures = {name: open_one(name) for name in sorted({name for pair in PHOTOS for name in pair})}
    return [(pictures[support], pictures[query]) for support, query in PHOTOS]


def scenes(seeds: Sequence[int] = SEEDS) -> list[tuple[Picture, Picture]]:
    """Generated pairs: one texture on different grounds."""

    def pair(seed: int) -> tuple[Picture, Picture]:
        task = make_task(seed)
        shown = [(task.support[0], task.support_masks[0]), (task.query, task.query_mask)]
        images = [(image.movedim(0, -1) * 255).round().byte().numpy() for image, _ in shown]
        return Picture(images[0], shown[0][1].numpy()), Picture(images[1], shown[1][1].numpy())

    return [pair(seed) for seed in seeds]


def run(pairs: Sequence[tuple[Picture, Picture]], extractor: FeatureExtractor) -> list[DemoTask]:
    """Each pair under each loss, at the query's own size."""
    results = []
    form = "clean" if extractor.background is None else "discriminant"
    for support, query in pairs:
        annotated, asked = (
            resize(p.image, p.mask, "clean", extractor.rule.size, extractor.rule.multiple) for p in (support, query)
        )
        features = [extractor.extract(item.image[None]) for item in (annotated, asked)]
        assert annotated.mask is not None
        maps = {}
        for name, variant in LOSSES.items():
            shots = (features[0][None], annotated.mask[None, None])
            config = InferenceConfig.preset(form + variant)
            out = infer(*shots, features[1], config, asked.valid[None], background=extractor.background)
            maps.setdefault("initial", out.initial_probability[0])
            maps[name] = out.probability[0]
        cells = (features[1].shape[-2], features[1].shape[-1])
        step = step_of(extractor.strided, cells, asked.geometry.full, extractor.stride)
        maps = {name: restore(p, asked.geometry, step) for name, p in maps.items()}
        truth = torch.from_numpy(query.mask)
        results.append(DemoTask(support, query, maps, {name: iou(p > 0.5, truth) for name, p in maps.items()}))
    return results


def mean_iou(results: Sequence[DemoTask]) -> dict[str, float]:
    """Mean over tasks, by column."""
    return {name: sum(r.iou[name] for r in results) / len(results) for name in results[0].iou}


def iou(prediction: Tensor, mask: Tensor) -> float:
    """Foreground intersection over union of one image."""
    union = (prediction | (mask == 1)).sum()
    return float((prediction & (mask == 1)).sum() / union) if union else 1.0


def draw(results: Sequence[DemoTask], path: Path) -> None:
    """One row per task: what was annotated, what was found, the probability maps with their IoU."""
    from matplotlib.figure import Figure

    maps = list(results[0].maps)
    titles = ["annotated by hand", "found", *maps]
    figure = Figure(figsize=(2.0 * len(titles), 2.2 * len(results) + 0.35), layout="constrained", dpi=110)
    axes = figure.subplots(len(results), len(titles), squeeze=False)
    for row, result in zip(axes, results, strict=True):
        row[0].imshow(_outlined(result.support.image, result.support.mask == 1))
        row[1].imshow(_outlined(result.query.image, result.maps[maps[-1]].numpy() > 0.5))
        for axis, name in zip(row[2:], maps, strict=True):
            axis.imshow(result.maps[name].numpy(), vmin=0, vmax=1, cmap="viridis")
            axis.set_xlabel(f"IoU {100 * result.iou[name]:.0f}", fontsize=9)
    for axis, title in zip(axes[0], titles, strict=True):
        axis.set_title(title, fontsize=9)
    for axis in axes.flat:
        axis.set_xticks([])
        axis.set_yticks([])
    with atomic(path) as temporary:
        figure.savefig(temporary)


def _outlined(image: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """[H, W, 3]: the object as it is, the rest faded, a red line between them."""
    pixels = torch.from_numpy(image.copy()).movedim(-1, 0).float() / 255
    inside = torch.from_numpy(mask.copy())[None].float()
    width = max(1, max(mask.shape) // 80)
    grown = F.max_pool2d(inside[None], 2 * width + 1, 1, width)[0]
    faded = torch.where(inside > 0, pixels, 0.3 * pixels + 0.5)
    line = torch.tensor([0.9, 0.1, 0.1])[:, None, None]
    return torch.where((grown - inside) > 0, line, faded).movedim(0, -1).numpy()
