"""Base training without steps: one pass over the base classes' features, then algebra (``models.discriminant``)."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from repri.data.images import IGNORE
from repri.distributed import World
from repri.models.discriminant import Discriminant, Moments

from .batches import sampled
from .network import HeadTrainee
from .plan import Plan

__all__ = ["fit_discriminant"]


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
        cells = head.unit(batch.x.to(device))[0].flatten(1).T.cpu()  # [h·w, C]
        labels = sampled(batch.labels, trainee.stride, trainee.aligned(batch.labels.shape[-1])).flatten()
        for label in labels.unique().tolist():
            if label != IGNORE:
                found.add(cells[labels == label], label)
        if report:
            report("moments of the base classes", i + 1, len(mine), "")
    if world.size > 1:
        for sums in found:
            torch.distributed.all_reduce(sums)
    means = head.fit(found)
    _nearest_mean(trainee.classifier, means.to(device), found.count.to(device))


def _nearest_mean(classifier: torch.nn.Conv2d, means: Tensor, count: Tensor) -> None:
    """log n + μ·z − |μ|²/2: features have the same spread in all directions."""
    with torch.no_grad():
        classifier.weight.copy_(means[..., None, None])
        assert classifier.bias is not None
        classifier.bias.copy_(count.clamp_min(1e-6).log() - means.square().sum(1) / 2)
