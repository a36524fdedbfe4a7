"""One update of the network from one batch."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from contextlib import nullcontext
from typing import Any

import torch
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel

from repri.data.io.masks import IGNORE
from repri.runtime.distributed import World

from .batches import Batch, Example, sampled, thinned
from .loss import losses
from .norm import synchronise
from .schedule import build_optimiser, step_seed
from .settings import TrainSettings
from .trainee import Trainee

__all__ = ["Learner", "Updater"]


class Updater(ABC):
    """A module with its optimiser, in one of the processes.

    Args:
        module: What is learned, on its device.
        settings: Settings of the run.
        world: The processes, whose gradients are averaged.
        device: Device of the module.
        classifier: A part of the module whose learning rate has its own factor.
    """

    def __init__(
        self,
        module: nn.Module,
        settings: TrainSettings,
        world: World,
        device: str = "cpu",
        classifier: nn.Module | None = None,
    ):
        self.module, self.settings, self.world, self.device = module, settings, world, device
        self.optimiser = build_optimiser(module, settings, classifier)

    def set_rate(self, rate: float) -> None:
        """Set the learning rate of the next update."""
        for group in self.optimiser.param_groups:
            group["lr"] = group["factor"] * rate

    @abstractmethod
    def update(self, batch: Any, iteration: int, stopping: bool = False) -> tuple[float, bool]:
        """One update.

        Args:
            batch: This process's part of the input of the step.
            iteration: Number of the step in the whole run.
            stopping: Whether this process was asked to stop.

        Returns:
            The loss, and whether any process was asked to stop. If the loss or the gradient is not finite, the loss is
            NaN or infinite and nothing has changed.
        """

    def finish(self, total: torch.Tensor) -> float:
        """Let the optimiser step, unless the loss or a gradient is not finite; returns the loss of all processes."""
        if self.world.size > 1:
            torch.distributed.all_reduce(total)
        finite = all(bool(p.grad.isfinite().all()) for p in self.module.parameters() if p.grad is not None)
        loss = float(total) if finite else float("nan")
        if math.isfinite(loss):
            self.optimiser.step()
        return loss


class Learner(Updater):
    """A network of base training with its optimiser.

    Args:
        trainee: The network, on its device.
        settings: Settings of the run.
        world: The processes, whose gradients and norms are averaged.
        device: Device of the network.
    """

    def __init__(self, trainee: Trainee, settings: TrainSettings, world: World, device: str = "cpu"):
        self.trainee = trainee
        if world.size > 1:
            synchronise(trainee)
        divided = world.size > 1 and settings.stepwise
        self.model: nn.Module = DistributedDataParallel(trainee) if divided else trainee
        super().__init__(trainee, settings, world, device, trainee.last)

    def update(self, batch: Batch, iteration: int, stopping: bool = False) -> tuple[float, bool]:
        """One update. Losses are means over the labelled pixels, and over the teacher's cells, of the whole batch: of
        all processes and all parts."""
        settings, accumulate, device = self.settings, self.settings.optimiser.accumulate, self.device
        batch = thinned(batch, settings.loss.thin, self.trainee.stride, step_seed(settings.seed, iteration))
        aligned = self.trainee.aligned(batch.labels.shape[-1])
        labels = sampled(batch.labels, settings.loss.stride, aligned)
        cells = 0 if batch.targets is None else int(batch.targets.any(1).sum())
        facts = torch.tensor([float((labels != IGNORE).sum()), float(cells), float(stopping)], device=device)
        if self.world.size > 1:
            torch.distributed.all_reduce(facts)
        weights = torch.tensor([settings.loss.label_weight, settings.teacher.weight], device=device)
        weights = weights / facts[:2].clamp_min(1)
        targets = [None] * accumulate if batch.targets is None else batch.targets.chunk(accumulate)
        parts = list(zip(batch.x.chunk(accumulate), labels.chunk(accumulate), targets, strict=True))
        total = torch.zeros((), device=device)
        self.optimiser.zero_grad(set_to_none=True)
        for i, part in enumerate(parts):
            waits = i + 1 < len(parts) and isinstance(self.model, DistributedDataParallel)
            with self.model.no_sync() if waits else nullcontext():
                moved = Example(*part).map(lambda tensor: tensor.to(device))
                loss = (weights * losses(self.model, moved, settings, aligned)).sum()
                (loss * self.world.size).backward()  # gradients are averaged over the processes
            total += loss.detach()
        return self.finish(total), bool(facts[2] > 0)
