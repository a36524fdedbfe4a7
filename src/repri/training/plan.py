"""A run that is ready to start, as the loop sees it; ``base`` and ``episodic`` say what is trained."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
import torch.nn as nn

from repri.features.store import FeatureStore
from repri.runtime.distributed import World

from .settings import TrainSettings

if TYPE_CHECKING:
    from .update import Updater

__all__ = ["OnePass", "Plan", "Progressing", "Report", "Step", "prepare"]

Report = Callable[[str, int, int, str], None]
"""Called with what is being done, how much is done, of how much, and figures to show."""
Progressing = Callable[[int, int], None]
"""Called with how much is done, and of how much."""


class Step(Protocol):
    """The input of one step."""

    @property
    def ids(self) -> list[str]:
        """Names of the images."""
        ...


class OnePass(Protocol):
    """A run that learns in one pass over the images, without steps."""

    def fit(self, world: World, report: Report | None, device: str) -> None:
        """Learn."""
        ...

    def measure_fit(self) -> tuple[float, int]:
        """Seconds that one image takes, and the number of images."""
        ...


@dataclass(frozen=True)
class Plan(ABC):
    """A run that is ready to start: its steps, what they change, how it is validated, and the file that results."""

    settings: TrainSettings
    """Settings of the run."""
    classes: tuple[str, ...]
    """Names of the base classes; where the network has labels of its own, they are 1, 2, …, and background is 0."""
    skipped: list[str]
    """Images that cannot be read, where they may be left out."""
    result: ClassVar[str]
    """Name of the file that results, in the run's folder."""

    @property
    def folder(self) -> Path:
        """Folder of the run."""
        return Path(self.settings.output).expanduser()

    @property
    def target(self) -> Path:
        """The file that results."""
        return self.folder / self.result

    @property
    def steps(self) -> int:
        """Number of steps in the whole run."""
        return self.steps_per_epoch * self.settings.optimiser.epochs

    def fill_stores(self, world: World, report: Report | None = None) -> None:
        """Run what is frozen once over every image."""
        for name, store, images in self.frozen():
            show = (lambda done, total, name=name: report(name, done, total, "")) if report else None
            store.prepare(images, show, world.share)
            world.wait()

    @property
    @abstractmethod
    def module(self) -> nn.Module:
        """What is trained."""

    @property
    @abstractmethod
    def steps_per_epoch(self) -> int:
        """Number of steps in an epoch."""

    @property
    @abstractmethod
    def identity(self) -> str:
        """Hash of everything besides the settings that decides what is learned."""

    @abstractmethod
    def frozen(self, steps: Sequence[Sequence[int]] | None = None) -> list[tuple[str, FeatureStore, list[Path]]]:
        """The networks that run once, before training.

        Args:
            steps: Places of some steps of the first epoch, if only their images are meant; None: all of the run.

        Returns:
            For each network a name of its features, their store, and the images.
        """

    @abstractmethod
    def check_images(self, progress: Progressing | None = None) -> None:
        """Read every image and mask of the run, and raise the error of the first one that cannot be read."""

    @abstractmethod
    def order(self, epoch: int) -> list[list[int]]:
        """Places of the inputs of each step of an epoch."""

    @abstractmethod
    def batches(self, steps: Sequence[Sequence[int]], epoch: int) -> Iterator[Step]:
        """The input of each step, read ahead by threads."""

    @abstractmethod
    def updater(self, world: World, device: str) -> Updater:
        """What changes the module in each step, in one of the processes."""

    @abstractmethod
    def validate(self, row: dict[str, Any], world: World, device: str) -> float:
        """Validate the module, put the figures into a row of the log, and return the score that decides."""

    @abstractmethod
    def export(self, progress: dict[str, Any]) -> None:
        """Write the file that results.

        Args:
            progress: The row of the log at which it is written.
        """

    @abstractmethod
    def row(self, epoch: int) -> dict[str, Any]:
        """The columns of the log that are known before an epoch is validated."""

    @abstractmethod
    def summary(self) -> list[str]:
        """Lines on what is trained, the classes, the images and the steps."""

    @property
    def one_pass(self) -> OnePass | None:
        """How the run learns in one pass over the images; None: it learns step by step."""
        return None

    def drawn(self, device: str) -> np.ndarray | None:
        """Predictions on a few validation images [H, W, 3], if there is something to draw."""
        return None


def prepare(
    settings: TrainSettings, world: World | None = None, progress: Progressing | None = None, device: str = "cpu"
) -> Plan:
    """Open the data and build what is trained. Nothing is written yet, except the counted classes in the cache.

    Args:
        settings: Settings of the run.
        world: The processes of the run; None: one.
        progress: Called while masks are counted.
        device: Device on which frozen networks run.

    Returns:
        The plan: of episodes, if the settings name a method, and else of base training. A mistake in the settings or
        the data raises an error.
    """
    if settings.episodic:
        from .episodic.plan import prepare_episodic as build
    else:
        from .base import prepare_base as build
    return build(settings, world, progress, device)
