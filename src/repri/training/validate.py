"""Validation: mIoU of the base classes, and the mean cosine to the teacher's features."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from repri.data.io.masks import IGNORE
from repri.runtime.distributed import World

from .batches import Examples
from .loss import unlikeness
from .trainee import Trainee

__all__ = ["Validation", "mean_iou", "validate"]


class Validation(NamedTuple):
    """How good a network is on the validation images."""

    confusion: Tensor
    """int64 [classes, classes]: pixels of the network's square by true class and predicted class."""
    cosine: float
    """Mean cosine to the teacher's features over all cells; NaN without a teacher."""

    @property
    def miou(self) -> float:
        """mIoU of the base classes in percent."""
        return mean_iou(self.confusion)


def validate(trainee: Trainee, examples: Examples, classes: int, world: World, device: str = "cpu") -> Validation:
    """Run a network over the validation images, divided among the processes.

    Args:
        trainee: The network, which is left in evaluation mode.
        examples: The validation images.
        classes: Number of classes, background included.
        world: The processes.
        device: Device of the network.

    Returns:
        The result over the images of all processes.
    """
    trainee.eval()
    confusion = torch.zeros(classes, classes, dtype=torch.int64)
    cosines = torch.zeros(2, dtype=torch.float64)  # sum, number
    mine = world.share(list(range(len(examples))))
    with torch.inference_mode():
        for batch in examples.batches([[place] for place in mine], 0):
            features, logits = trainee(batch.x.to(device))
            if batch.targets is not None:
                cosine = 1 - unlikeness(features.float().cpu(), batch.targets)
                cosines += torch.tensor([float(cosine.sum()), len(cosine)], dtype=torch.float64)
            if logits is not None:
                predicted = trainee.upsample(logits, batch.labels.shape[-1]).argmax(1).cpu()
                known = batch.labels != IGNORE
                index = batch.labels[known].long() * classes + predicted[known]
                confusion += torch.bincount(index, minlength=classes**2).reshape(classes, classes)
    total, count = torch.stack(world.gather(cosines)).sum(0)
    return Validation(torch.stack(world.gather(confusion)).sum(0), float(total / count))


def mean_iou(confusion: Tensor) -> float:
    """Mean intersection over union of the classes but the background, in percent.

    Args:
        confusion: [classes, classes] pixels by true class and predicted class.

    Returns:
        The mean over the classes that occur or are predicted; NaN if none is.

    Example:
        >>> mean_iou(torch.tensor([[5, 0, 0], [0, 3, 1], [0, 0, 4]]))
        77.5
    """
    table = confusion.double()
    hit = table.diagonal()
    union = table.sum(0) + table.sum(1) - hit
    seen = union[1:] > 0
    return 100 * float((hit[1:][seen] / union[1:][seen]).mean())
