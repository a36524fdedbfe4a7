"""Rules that need the data, the network or the number of processes; ``prepare`` checks them before a run starts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from repri.data.datasets.dataset import Dataset
from repri.data.io.classes import among
from repri.models.networks.build import BACKBONES, WHOLE
from repri.protocols import get_protocol
from repri.runtime.distributed import World
from repri.runtime.errors import RepriError
from repri.runtime.settings import nearest

from .settings import NetworkSettings, TrainSettings
from .trainee import Trainee

__all__ = ["check_batch", "check_classes", "check_folder", "check_network", "check_seen", "check_size", "check_steps"]

MOST_CLASSES = 254
"""Labels are bytes, and 255 is ignored."""


def check_batch(settings: TrainSettings, world: World) -> None:
    """The processes divide a batch evenly, and norms and mixup have two images to work on."""
    if not settings.stepwise:
        return
    batch, parts = settings.optimiser.batch, settings.optimiser.accumulate
    if batch % (world.size * parts):
        raise RepriError(f"A batch of {batch} cannot be divided among {world.size} processes in {parts} parts each.")
    together = parts * (world.size if settings.loss.mixup > 0 else 1)  # norms see all processes, mixup sees one
    if batch // together < 2:
        raise RepriError("Each part of a batch needs two images, for norms and mixup: take fewer parts or more images.")


def check_classes(settings: TrainSettings, dataset: Dataset, base: Sequence[int]) -> None:
    """There are base classes, and label smoothing leaves something for the right one."""
    count = len(base)
    if not 1 <= count <= MOST_CLASSES:
        raise RepriError(
            f"{dataset.name}, fold {settings.data.fold}: {count} classes to train on, there must be 1 to "
            f"{MOST_CLASSES}; data.fold: null holds none out, data.classes: […] names them."
        )
    if get_protocol(settings.protocol).smoothing_over_others and settings.loss.smoothing * (count + 1) > count:
        raise RepriError(
            f"loss.smoothing: {settings.protocol} spreads it over {count} other classes, and {settings.loss.smoothing} "
            f"leaves too little for the right one: take at most {count / (count + 1):.3g}."
        )


def check_network(network: NetworkSettings) -> None:
    """The name is known, and what is frozen can be frozen."""
    name = network.name
    if network.family != "frozen" and name not in WHOLE:
        raise RepriError(f"There is no network named {name!r}{nearest(name, WHOLE)} Known: {', '.join(WHOLE)}.")
    if network.family == "frozen" and name in BACKBONES and network.weights is None:
        raise RepriError(f"{name} without weights is untrained, and network.freeze keeps it so: give network.weights.")
    if network.stage is not None and not name.startswith("hub:") and not Path(name).expanduser().is_dir():
        raise RepriError(f"network.freeze: {name} is frozen as a whole, not up to {network.stage!r}: set backbone.")


def check_size(settings: TrainSettings, trainee: Trainee, size: int) -> None:
    """The input fits the network, and the loss has places to be evaluated at."""
    multiple = trainee.rule.multiple
    if size % multiple:
        raise RepriError(f"data.size must be a multiple of {multiple} for {settings.network.name}, got {size}.")
    length = size - trainee.aligned(size)
    if settings.stepwise and length % settings.loss.stride:
        raise RepriError(f"loss.stride must divide {length} here, got {settings.loss.stride}.")
    if settings.loss.thin > size // trainee.stride:
        raise RepriError(f"loss.thin: there are {size // trainee.stride} cells in a row, got {settings.loss.thin}.")


def check_seen(settings: TrainSettings, dataset: Dataset, seen: Sequence[str]) -> None:
    """Nothing that the run starts from has seen labels of the classes that the fold tests."""
    fold = settings.data.fold
    tested = () if fold is None else (dataset.classes[id] for id in dataset.novel(fold))
    if spoilt := among(tested, seen):
        raise RepriError(
            f"Fold {fold} tests {', '.join(spoilt)}, but the network, weights or teacher from which this run starts "
            "has seen their labels: take another, or data.fold: null."
        )


def check_steps(settings: TrainSettings, images: int) -> None:
    """The images fill a batch, and the warm-up ends before the run."""
    if not settings.stepwise:
        return
    batch, steps = settings.optimiser.batch, images // settings.optimiser.batch * settings.optimiser.epochs
    if steps < 1:
        raise RepriError(f"{images} images do not fill a batch of {batch}: take a smaller optimiser.batch.")
    if settings.optimiser.warmup > steps:
        raise RepriError(f"optimiser.warmup takes {settings.optimiser.warmup} of {steps} steps: make it shorter.")


def check_folder(target: Path, resume: bool) -> None:
    """A run does not write its ``target`` over another, and cannot go on where there is none."""
    folder = target.parent
    last, config = ((folder / name).exists() for name in ("last.pt", "config.yaml"))
    if target.exists() and not last:
        raise RepriError(f"{folder} holds {target.name} already, and no last.pt to go on from: choose another folder.")
    if resume and not last and not config:
        raise RepriError(f"There is nothing to resume: {folder / 'last.pt'} does not exist.")
    if last and not resume:
        raise RepriError(f"{folder} holds a run already: go on with --resume, or choose another folder.")
