"""Base training without steps: one pass over the features of the base classes, then algebra."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from repri.data.io.masks import IGNORE
from repri.models.heads.discriminant import Discriminant, Moments
from repri.runtime.distributed import World

from .batches import Batch
from .plan import Report
from .square import labels_at_cells
from .trainee import HeadTrainee

if TYPE_CHECKING:
    from .base import BasePlan

__all__ = ["add_image", "empty_moments", "fit_discriminant", "measure_images"]

MEASURED = 3
"""Images that are measured before a run."""


def fit_discriminant(plan: BasePlan, world: World, report: Report | None = None, device: str = "cpu") -> None:
    """Compute the head, and set the classifier to the nearest class mean in its features.

    Args:
        plan: A run whose head is a discriminant.
        world: The processes, which divide the images among them.
        report: Called with the progress.
        device: Device of the network.
    """
    (trainee, head), examples, moments = _parts(plan), plan.examples, empty_moments(plan)
    mine = world.share(list(range(len(examples))))
    for i, batch in enumerate(examples.batches([[place] for place in mine], 0)):
        add_image(moments, plan, batch, device)
        if report:
            report("moments of the base classes", i + 1, len(mine), "")
    if world.size > 1:
        for sums in moments:
            moved = sums.to(device)
            torch.distributed.all_reduce(moved)
            sums.copy_(moved)
    means = head.fit(moments)
    _set_nearest_mean(trainee.classifier, means, moments.count)


def empty_moments(plan: BasePlan) -> Moments:
    """Moments of no cells, for the classes of a run and its background."""
    _, head = _parts(plan)
    return Moments.empty(len(plan.classes) + 1, len(head.mean))


def add_image(moments: Moments, plan: BasePlan, batch: Batch, device: str = "cpu") -> None:
    """Add the cells of one image to the moments of their classes.

    Args:
        moments: The sums so far, which change.
        plan: The run. Every ``loss.thin``-th cell counts in both directions; an extractor that computes those cells
            alone has left out the others already.
        batch: A batch of one image.
        device: Device of the head.
    """
    (trainee, head), store = _parts(plan), plan.examples.features
    assert store is not None
    assert trainee.trunk is not None
    every = slice(None, None, plan.settings.loss.thin * trainee.trunk.stride // store.extractor.stride)
    labels = labels_at_cells(batch.labels[0], batch.x.shape[-2:], store.extractor)[every, every].flatten()
    rows = head.unit(batch.x[..., every, every].to(device))[0].cpu().flatten(1).T
    for label in labels.unique().tolist():
        if label != IGNORE:
            moments.add(rows[labels == label], label)


def measure_images(plan: BasePlan) -> float:
    """Seconds that an image takes, measured on a few whose features are computed first.

    Args:
        plan: A run whose head is a discriminant.

    Returns:
        Seconds.
    """
    steps = [[place] for place in range(min(MEASURED, len(plan.examples)))]
    for _, store, images in plan.frozen(steps):
        store.prepare(images)
    moments = empty_moments(plan)
    start = time.perf_counter()
    for batch in plan.batches(steps, 0):
        add_image(moments, plan, batch)
    return (time.perf_counter() - start) / len(steps)


def _parts(plan: BasePlan) -> tuple[HeadTrainee, Discriminant]:
    """The network and its head, if that is a discriminant."""
    assert isinstance(plan.trainee, HeadTrainee)
    assert isinstance(plan.trainee.head, Discriminant)
    return plan.trainee, plan.trainee.head


def _set_nearest_mean(classifier: torch.nn.Conv2d, means: Tensor, count: Tensor) -> None:
    """Logits log n + μ·z − |μ|²/2: the discriminant's features have the same spread in all directions."""
    with torch.no_grad():
        classifier.weight.copy_(means[..., None, None])
        assert classifier.bias is not None
        classifier.bias.copy_(count.clamp_min(1e-6).log() - means.square().sum(1) / 2)
