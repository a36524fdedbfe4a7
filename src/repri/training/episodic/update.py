"""One update of a method's network from a few episodes."""

from __future__ import annotations

import torch

from repri.methods.learned import LearnedMethod
from repri.runtime.distributed import World
from repri.training.schedule import step_seed
from repri.training.settings import TrainSettings
from repri.training.update import Updater

from .episodes import EpisodeBatch

__all__ = ["EpisodeLearner"]


class EpisodeLearner(Updater):
    """The network of a method with its optimiser.

    Args:
        method: The method, whose network is on its device.
        settings: Settings of the run.
        world: The processes, whose gradients are averaged.
        device: Device of the network.
    """

    def __init__(self, method: LearnedMethod, settings: TrainSettings, world: World, device: str = "cpu"):
        assert method.network is not None
        self.method = method
        super().__init__(method.network, settings, world, device)

    def update(self, batch: EpisodeBatch, iteration: int, stopping: bool = False) -> tuple[float, bool]:
        """One update. The loss is the mean over the episodes of all processes, which come one at a time. Dropout
        depends on the episode and not on the process."""
        total, asked = torch.zeros((), device=self.device), torch.tensor(float(stopping), device=self.device)
        self.optimiser.zero_grad(set_to_none=False)
        for episode in batch.episodes:
            torch.manual_seed(step_seed(self.settings.seed, iteration, episode.place))
            loss = self.method.loss(episode.shots, episode.query) / self.settings.optimiser.batch
            loss.backward()
            total += loss.detach()
        if self.world.size > 1:
            torch.distributed.all_reduce(asked)
        self._add_gradients()
        return self.finish(total), bool(asked > 0)

    def _add_gradients(self) -> None:
        """Sum the gradients of all processes; a parameter that no episode used has the gradient 0."""
        learned = [p for p in self.module.parameters() if p.requires_grad]
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in learned]
        if self.world.size > 1:
            flat = torch.cat([g.flatten() for g in gradients])
            torch.distributed.all_reduce(flat)
            gradients = [
                part.view_as(p) for part, p in zip(flat.split([p.numel() for p in learned]), learned, strict=True)
            ]
        for parameter, gradient in zip(learned, gradients, strict=True):
            parameter.grad = gradient
