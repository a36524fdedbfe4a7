"""What is minimised: smoothed cross-entropy with the labels (§4), and 1 − cosine to a teacher's features."""

from __future__ import annotations

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

from repri.data.io.masks import IGNORE
from repri.protocols import get_protocol

from .batches import Example
from .settings import TrainSettings
from .trainee import upsampled

__all__ = ["losses", "unlikeness"]


def losses(model: nn.Module, part: Example, settings: TrainSettings, aligned: bool) -> Tensor:
    """Both losses, each summed over the places where it is evaluated.

    With C classes, a pixel of class c has the target 1 − ε + ε/C for c and ε/C for the others; a protocol with
    ``smoothing_over_others`` has 1 − ε for c and ε/(C − 1) for the others, which is the same with ε·C/(C − 1).
    Mixup takes λ·x + (1 − λ)·x′ as input, where x′ is the next image of the batch, and mixes the losses alike.

    Args:
        model: Input → features [B, C, h, w] and logits [B, classes, h, w] or None.
        part: A batch, or a part of one, on the model's device: input, labels and targets with a first axis B.
        settings: Settings of the run.
        aligned: Whether outer cells lie on outer pixels.

    Returns:
        [2]: cross-entropy over labelled pixels, 1 − cosine over the cells that have a target.
    """
    x, labels, targets = part
    mixing = None
    if settings.loss.mixup > 0:
        mixing = float(torch.distributions.Beta(settings.loss.mixup, settings.loss.mixup).sample())
        x = mixing * x + (1 - mixing) * x.roll(1, 0)
    run = settings.run
    half = run.mixed_precision if x.device.type == "cuda" else run.mixed_precision_on_cpu
    with torch.autocast(x.device.type, torch.bfloat16, enabled=half):
        features, logits = model(x)
    unlike = features.new_zeros(()) if targets is None else unlikeness(features.float(), targets).sum()
    if logits is None:
        return torch.stack([torch.zeros_like(unlike), unlike])
    labels = labels.long()
    logits = upsampled(logits.float(), (labels.shape[1], labels.shape[2]), aligned)
    classes = logits.shape[1]
    over_others = get_protocol(settings.protocol).smoothing_over_others
    smoothing = settings.loss.smoothing * (classes / (classes - 1) if over_others else 1)

    def entropy(target: Tensor) -> Tensor:
        return F.cross_entropy(logits, target, ignore_index=IGNORE, reduction="sum", label_smoothing=smoothing)

    crossed = entropy(labels)
    if mixing is not None:
        crossed = mixing * crossed + (1 - mixing) * entropy(labels.roll(1, 0))
    return torch.stack([crossed, unlike])


def unlikeness(features: Tensor, targets: Tensor) -> Tensor:
    """1 − cosine at each cell that has a target.

    Args:
        features: [B, C, h, w].
        targets: [B, C, h, w], zero where there is no target.

    Returns:
        [cells].
    """
    return (1 - F.cosine_similarity(features, targets, dim=1))[targets.any(1)]
