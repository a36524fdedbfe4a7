"""Base training without steps: one pass over the base classes' features, then algebra (``models.discriminant``)."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from repri.data.images import IGNORE
from repri.distributed import World
from repri.models.discriminant import Discriminant, Moments

from .batches import Batch
from .network import HeadTrainee
from .plan import Plan

__all__ = ["add_picture", "fit_discriminant", "labels_of"]


def fit_discriminant(
    plan: Plan,
    trainee: HeadTrainee,
    world: World,
    report: Callable[[str, int, int, str], None] | None = None,
    device: str = "cpu",
) -> None:
    """Set the head, and the classifier to the nearest class mean in its features (with the classes' frequencies)."""
    head, examples = trainee.head, plan.examples
    assert isinstance(head, Discriminant)
    found = Moments.empty(len(plan.classes) + 1, len(head.mean))
    mine = world.share(list(range(len(examples))))
    for i, batch in enumerate(examples.batches([[place] for place in mine], 0)):
        add_picture(found, trainee, batch, plan.config.thin, device)
        if report:
            report("moments of the base classes", i + 1, len(mine), "")
    if world.size > 1:
        for sums in found:
            moved = sums.to(device)
            torch.distributed.all_reduce(moved)
            sums.copy_(moved)
    means = head.fit(found)
    _nearest_mean(trainee.classifier, means, found.count)


def labels_of(labels: Tensor, features: Tensor, trainee: HeadTrainee) -> Tensor:
    """[H, W] → [h, w]: labels of the pixels on which, or around which, the cells of features [B, C, h, w] lie."""
    first = 0 if trainee.trunk is not None and trainee.trunk.strided else trainee.stride // 2
    rows, columns = (
        (torch.arange(cells) * trainee.stride + first).clamp_max(side - 1)
        for cells, side in zip(features.shape[-2:], labels.shape, strict=True)
    )
    return labels[rows][:, columns]


def add_picture(found: Moments, trainee: HeadTrainee, batch: Batch, thin: int, device: str = "cpu") -> None:
    """Every ``thin``-th cell, in both directions, of the one picture of a batch."""
    head, few = trainee.head, slice(None, None, thin)
    assert isinstance(head, Discriminant)
    cells = head.unit(batch.x[..., few, few].to(device))[0].cpu()
    rows, flat = cells.flatten(1).T, labels_of(batch.labels[0], batch.x, trainee)[few, few].flatten()
    for label in flat.unique().tolist():
        if label != IGNORE:
            found.add(rows[flat == label], label)


def _nearest_mean(classifier: torch.nn.Conv2d, means: Tensor, count: Tensor) -> None:
    """log n + μ·z − |μ|²/2: features have the same spread in all directions."""
    with torch.no_grad():
        classifier.weight.copy_(means[..., None, None])
        assert classifier.bias is not None
        classifier.bias.copy_(count.clamp_min(1e-6).log() - means.square().sum(1) / 2)
