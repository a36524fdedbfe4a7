"""One annotated image, and what each term of the objective makes of others, after the paper's first figure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from repri.data.datasets.scenes import make_task
from repri.data.io.formats import labelme
from repri.data.io.images import read_image
from repri.evaluation.metrics import count_pixels
from repri.features.extractor import FeatureExtractor, features_of
from repri.inference import InferenceConfig, infer
from repri.protocols import get_protocol
from repri.refine import get_refiner
from repri.runtime.draw import highlight
from repri.runtime.files import atomic

__all__ = [
    "EXTRACTOR",
    "LOSSES",
    "PHOTOS",
    "SHOWN",
    "AnnotatedImage",
    "DemoTask",
    "draw",
    "iou",
    "mean_iou",
    "photographs",
    "run",
    "scenes",
]

EXTRACTOR = "default-fold2"
"""The embedded model without the labels of fold 2, which has persons: here they are novel, as in the paper."""
LOSSES: dict[str, tuple[str, ...]] = {"CE": ("h", "kl"), "CE + H": ("kl",), "CE + H + KL": ()}
"""Column of the figure → terms of the objective that are left out."""
PHOTOS = (("eileen_collins", "grace_hopper"), ("eileen_collins", "photographer"), ("grace_hopper", "photographer"))
"""The annotated photograph, and the one in which the person is segmented."""
SEEDS = range(24)
"""Generated tasks that are run; the means are over all of them."""
SHOWN = (0, 7)
"""Generated tasks that are drawn."""
CLEAN = get_protocol("clean")


class AnnotatedImage(NamedTuple):
    """An image and the mask of its object."""

    image: np.ndarray
    """[H, W, 3] uint8."""
    mask: np.ndarray
    """[H, W] uint8, 1 on the object."""


class DemoTask(NamedTuple):
    """One support image, one query, and the results of each loss."""

    support: AnnotatedImage
    query: AnnotatedImage
    maps: dict[str, Tensor]
    """Column → foreground probability [H, W] of the query."""
    iou: dict[str, float]
    """Column → IoU of the object."""


Pair = tuple[AnnotatedImage, AnnotatedImage]


def photographs() -> list[Pair]:
    """Pairs of an annotated photograph and a query whose outline was drawn by hand too."""
    folder = Path(__file__).with_name("photos")

    def open_one(name: str) -> AnnotatedImage:
        (item,) = labelme.read(folder / f"{name}.json")
        return AnnotatedImage(read_image(item.image), item.ids({"person": 1}))

    images = {name: open_one(name) for name in sorted({name for pair in PHOTOS for name in pair})}
    return [(images[support], images[query]) for support, query in PHOTOS]


def scenes(seeds: Sequence[int] = SEEDS) -> list[Pair]:
    """Generated pairs: one texture on different grounds."""

    def pair(seed: int) -> Pair:
        task = make_task(seed)
        shown = [(task.support[0], task.support_masks[0]), (task.query, task.query_mask)]
        images = [(image.movedim(0, -1) * 255).round().byte().numpy() for image, _ in shown]
        return AnnotatedImage(images[0], shown[0][1].numpy()), AnnotatedImage(images[1], shown[1][1].numpy())

    return [pair(seed) for seed in seeds]


def run(pairs: Sequence[Pair], extractor: FeatureExtractor) -> list[DemoTask]:
    """Segment each pair under each loss, at the query's own size, refined as :class:`repri.Segmenter` does.

    Args:
        pairs: Support images and queries.
        extractor: The extractor.

    Returns:
        The maps and IoU of each pair.
    """
    results, preset = [], InferenceConfig.preset(extractor.default_preset)
    for support, query in pairs:
        views = [extractor.view((p.image.shape[0], p.image.shape[1]), CLEAN.resize) for p in (support, query)]
        shot, asked = (features_of(extractor, p.image, view) for p, view in zip((support, query), views, strict=True))
        labels, valid = views[0].labels(support.mask, CLEAN.cell_labels), views[1].valid()
        maps: dict[str, Tensor] = {}
        for name, terms in LOSSES.items():
            config, background = preset.without(*terms), extractor.background
            out = infer(shot[None, None], labels[None, None], asked[None], config, valid[None], background=background)
            maps.setdefault("initial", out.initial_probability[0])
            maps[name] = out.probability[0]
        refine = get_refiner(CLEAN.refine)
        maps = {name: refine(views[1].restore(p)[None], query.image)[0] for name, p in maps.items()}
        truth = torch.from_numpy(query.mask)
        results.append(DemoTask(support, query, maps, {name: iou(p > 0.5, truth) for name, p in maps.items()}))
    return results


def mean_iou(results: Sequence[DemoTask]) -> dict[str, float]:
    """Column → mean IoU over tasks."""
    return {name: sum(r.iou[name] for r in results) / len(results) for name in results[0].iou}


def iou(prediction: Tensor, mask: Tensor) -> float:
    """Foreground IoU of one image."""
    hit, union, *_ = count_pixels(prediction, mask)
    return hit / union if union else 1.0


def draw(results: Sequence[DemoTask], path: Path) -> None:
    """Draw one row per task: the annotated image, the segmented query, and the probability maps with their IoU.

    Args:
        results: The tasks.
        path: PNG file to write.
    """
    from matplotlib.figure import Figure

    maps = list(results[0].maps)
    titles = ["annotated by hand", "segmented", *maps]
    figure = Figure(figsize=(2.0 * len(titles), 2.2 * len(results) + 0.35), layout="constrained", dpi=110)
    axes = figure.subplots(len(results), len(titles), squeeze=False)
    for row, result in zip(axes, results, strict=True):
        row[0].imshow(highlight(result.support.image, result.support.mask == 1))
        row[1].imshow(highlight(result.query.image, result.maps[maps[-1]].numpy() > 0.5))
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
