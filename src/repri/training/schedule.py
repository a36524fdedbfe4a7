"""The optimiser, the learning rate of each step, and the seed of each step."""

from __future__ import annotations

import hashlib
import math
from typing import Any

import torch
import torch.nn as nn

from repri.protocols import get_protocol

from .settings import TrainSettings

__all__ = ["build_optimiser", "learning_rate", "step_seed"]

POWER = 0.9
"""Power of the schedule poly."""


def build_optimiser(
    module: nn.Module, settings: TrainSettings, classifier: nn.Module | None = None
) -> torch.optim.Optimizer:
    """The optimiser over all parameters that are learned.

    Args:
        module: What is learned.
        settings: Settings of the run.
        classifier: A part of it whose learning rate has its own factor.

    Returns:
        An optimiser with two groups of parameters, of which the second is the classifier's; ``factor`` of a group
        multiplies the learning rate.
    """
    wanted = settings.optimiser
    last = set() if classifier is None else {id(p) for p in classifier.parameters()}
    learned = [p for p in module.parameters() if p.requires_grad]
    groups: list[dict[str, Any]] = [
        {"params": [p for p in learned if id(p) not in last], "factor": 1.0},
        {"params": [p for p in learned if id(p) in last], "factor": wanted.classifier_factor},
    ]
    if wanted.name == "adamw":
        return torch.optim.AdamW(groups, wanted.lr, weight_decay=wanted.weight_decay)
    nesterov = get_protocol(settings.protocol).nesterov if wanted.nesterov is None else wanted.nesterov
    return torch.optim.SGD(groups, wanted.lr, wanted.momentum, 0, wanted.weight_decay, nesterov)


def learning_rate(settings: TrainSettings, iteration: int, steps: int) -> float:
    """Learning rate of a step, after a linear rise if there is a warm-up.

    ``cosine``: lr_end + (lr − lr_end)·(1 + cos(π·t/T))/2. ``poly``: lr·(1 − t/T)^0.9. ``step``: lr, divided by 10 after
    each of the epochs ``optimiser.drops``.

    Args:
        settings: Settings of the run; the protocol decides lr_end.
        iteration: t, the number of the step in the whole run.
        steps: T, the number of all steps.

    Returns:
        The learning rate.

    Example:
        >>> [round(learning_rate(TrainSettings(), t, 10), 6) for t in (0, 5, 10)]
        [0.0025, 0.00125, 0.0]
    """
    wanted, end = settings.optimiser, get_protocol(settings.protocol).final_lr
    rise = min(1.0, (iteration + 1) / wanted.warmup) if wanted.warmup else 1.0
    if wanted.schedule == "poly":
        return rise * wanted.lr * (1 - iteration / steps) ** POWER
    if wanted.schedule == "step":
        passed = sum(iteration * wanted.epochs >= epoch * steps for epoch in wanted.drops)
        return rise * wanted.lr / 10**passed
    return rise * (end + (wanted.lr - end) * (1 + math.cos(math.pi * iteration / steps)) / 2)


def step_seed(seed: int, iteration: int, rank: int = 0) -> int:
    """Seed of one step in one process: 63 bits of a hash."""
    digest = hashlib.sha256(f"{seed}/{iteration}/{rank}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1
