"""Base training without steps: one pass over the base classes' features, then algebra (``models.discriminant``)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from repri.data.io.masks import IGNORE
from repri.models.heads.discriminant import Discriminant, Moments
from repri.runtime.distributed import World

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
        add_picture(found, plan, head, batch, device)
        if report:
            report("moments of the base classes", i + 1, len(mine), "")
    if world.size > 1:
        for sums in found:
            moved = sums.to(device)
            torch.distributed.all_reduce(moved)
            sums.copy_(moved)
    means = head.fit(found)
    _nearest_mean(trainee.classifier, means, found.count)


def labels_of(labels: Tensor, cells: Sequence[int], stride: int, strided: bool) -> Tensor:
    """[H, W] → [h, w]: labels of the pixels on which (``strided``), or around which, h×w cells lie."""
    rows, columns = (
        (torch.arange(count) * stride + (0 if strided else stride // 2)).clamp_max(side - 1)
        for count, side in zip(cells, labels.shape, strict=True)
    )
    return labels[rows][:, columns]


def add_picture(found: Moments, plan: Plan, head: Discriminant, batch: Batch, device: str = "cpu") -> None:
    """Every ``thin``-th cell, in both directions, of the one picture of a batch: of those that were computed, where
    others were left out already."""
    trunk = plan.trainee.trunk
    assert trunk is not None
    assert plan.examples.store is not None
    source = plan.examples.store.extractor
    few = slice(None, None, plan.config.thin * trunk.stride // source.stride)
    labels = labels_of(batch.labels[0], batch.x.shape[-2:], source.stride, source.strided)[few, few].flatten()
    rows = head.unit(batch.x[..., few, few].to(device))[0].cpu().flatten(1).T
    for label in labels.unique().tolist():
        if label != IGNORE:
            found.add(rows[labels == label], label)


def _nearest_mean(classifier: torch.nn.Conv2d, means: Tensor, count: Tensor) -> None:
    """log n + μ·z − |μ|²/2: features have the same spread in all directions."""
    with torch.no_grad():
        classifier.weight.copy_(means[..., None, None])
        assert classifier.bias is not None
        classifier.bias.copy_(count.clamp_min(1e-6).log() - means.square().sum(1) / 2)
