"""The plan of a run. Every mistake is reported here, before the run starts."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from repri.data.datasets.dataset import Dataset
from repri.features.store import FeatureStore
from repri.protocols import get_protocol
from repri.runtime.distributed import World
from repri.runtime.errors import RepriError
from repri.runtime.files import check_cache, check_writable
from repri.runtime.parallel import parallel

from .augment import Flips
from .batches import Examples
from .build import build_trainee, load_frozen
from .checks import check_batch, check_classes, check_seen, check_size, check_steps
from .settings import TrainSettings
from .split import base_classes, base_labels, choose_images, open_splits, readable, unreadable
from .square import Square
from .trainee import Trainee

__all__ = ["Plan", "Progressing", "Report", "prepare"]

Report = Callable[[str, int, int, str], None]
"""Called with what is being done, how much is done, of how much, and figures to show."""
Progressing = Callable[[int, int], None]
"""Called with how much is done, and of how much."""


@dataclass(frozen=True)
class Plan:
    """A run that is ready to start."""

    settings: TrainSettings
    """Settings of the run."""
    classes: tuple[str, ...]
    """Names of the base classes, whose labels are 1, 2, …; background is 0."""
    trainee: Trainee
    """The network."""
    examples: Examples
    """The images for training."""
    validation: Examples
    """The images for validation."""
    skipped: list[str]
    """Images that cannot be read, where they may be left out."""

    @property
    def steps_per_epoch(self) -> int:
        """Number of steps in an epoch."""
        return len(self.examples) // self.settings.optimiser.batch

    @property
    def steps(self) -> int:
        """Number of steps in the whole run."""
        return self.steps_per_epoch * self.settings.optimiser.epochs

    @property
    def folder(self) -> Path:
        """Folder of the run."""
        return Path(self.settings.output).expanduser()

    @property
    def identity(self) -> str:
        """Hash of the classes, of the names of all images in their order, of the frozen part and of the teacher."""
        networks = [store.extractor.identity for _, store, _ in self.frozen()]  # on any device
        parts = (self.classes, self.examples.ids, self.validation.ids, networks)
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]

    def frozen(self) -> list[tuple[str, FeatureStore, list[Path]]]:
        """The networks that run once, before training: the name, the store of its features, and the images."""
        wanted: dict[int, tuple[str, FeatureStore, list[Path]]] = {}
        for part in (self.examples, self.validation):
            for name, store in (("features", part.features), ("teacher's features", part.teacher)):
                if store is not None:
                    _, _, images = wanted.setdefault(id(store), (name, store, []))
                    images += [part.path(place) for place in range(len(part))]
        return list(wanted.values())

    def fill_stores(self, world: World, report: Report | None = None) -> None:
        """Run the frozen part of the network, and the teacher, once over every image."""
        for name, store, images in self.frozen():
            show = (lambda done, total, name=name: report(name, done, total, "")) if report else None
            store.prepare(images, show, world.share)
            world.wait()

    def check_images(self, progress: Progressing | None = None) -> None:
        """Read every image and mask of the run, and raise the error of the first one that cannot be read."""
        done, total = 0, len(self.examples) + len(self.validation)
        labelled = self.settings.labelled
        for part in (self.examples, self.validation):
            for problem in parallel(lambda id, part=part: unreadable(part.dataset, id, labelled), part.ids):
                if problem is not None:
                    raise problem
                done += 1
                if progress:
                    progress(done, total)


def prepare(
    settings: TrainSettings, world: World | None = None, progress: Progressing | None = None, device: str = "cpu"
) -> Plan:
    """Open the data and build the network. Nothing is written yet, except the counted classes in the cache.

    Args:
        settings: Settings of the run.
        world: The processes of the run; None: one.
        progress: Called while masks are counted.
        device: Device on which frozen networks run.

    Returns:
        The plan. A mistake in the settings or the data raises an error.
    """
    check_batch(settings, world or World())
    check_writable(Path(settings.output).expanduser() / "last.pt")
    dataset, held_out = open_splits(settings)
    base = base_classes(settings.data, dataset)
    check_classes(settings, dataset, base)

    torch.manual_seed(settings.seed)
    trainee = build_trainee(settings, len(base) + 1, device)
    size = settings.data.size or trainee.rule.size
    check_size(settings, trainee, size)
    sources = _open_sources(settings, trainee, size, device)
    classes = tuple(dataset.classes[id] for id in base)
    trainee.seen = _seen(trainee, sources.teacher, classes if settings.labelled else ())
    check_seen(settings, dataset, trainee.seen)

    protocol = get_protocol(settings.protocol)
    square = Square(protocol.resize, size, trainee.rule, trainee.stride)
    flips = Flips(mirror=True, vertical=protocol.vertical_flip) if settings.stepwise else Flips()
    skipped: list[str] = []

    def examples(data: Dataset, most: int | None, features: FeatureStore | None, flips: Flips) -> Examples:
        if settings.data.skip_unreadable:  # before masks are counted: one of them may be unreadable
            data, lost = readable(data, settings.labelled)
            skipped.extend(lost)
        labelled = base if settings.labelled else None
        ids = choose_images(data, labelled, settings.data.min_pixels, most, progress)
        table = base_labels(data, base, protocol.void_is_background) if settings.labelled else None
        return Examples(data, ids, table, square, features, sources.teacher, flips, settings.seed)

    training = examples(dataset, settings.data.images, sources.training, flips)
    validation = examples(held_out, settings.validation.images, sources.validation, Flips())
    check_steps(settings, len(training))
    return Plan(settings, classes, trainee, training, validation, list(dict.fromkeys(skipped)))


@dataclass(frozen=True)
class _Sources:
    """Stores of features that are computed before training."""

    training: FeatureStore | None
    validation: FeatureStore | None
    teacher: FeatureStore | None


def _open_sources(settings: TrainSettings, trainee: Trainee, size: int, device: str) -> _Sources:
    """The stores of the frozen part and of the teacher.

    A discriminant that is computed from every n-th cell may have a store of its own for training: some extractors
    compute those cells alone.
    """
    trunk, resize = trainee.trunk, get_protocol(settings.protocol).resize
    if trunk is not None or settings.teacher.name is not None:
        check_cache()
    training = validation = None
    if trunk is not None:
        training = validation = FeatureStore(trunk, resize, size)
        if not settings.stepwise and (coarse := trunk.coarse(settings.loss.thin)) is not trunk:
            training = FeatureStore(coarse, resize, size)
    teacher = None
    if settings.teacher.name is not None:
        extractor = load_frozen(settings.teacher.name, device, settings.teacher.layers)
        if extractor.channels != settings.head.width:
            raise RepriError(
                f"head.width: the teacher gives {extractor.channels} channels, and the network {settings.head.width}."
            )
        teacher = FeatureStore(extractor, resize, settings.teacher.size)
    return _Sources(training, validation, teacher)


def _seen(trainee: Trainee, teacher: FeatureStore | None, classes: tuple[str, ...]) -> tuple[str, ...]:
    """Classes whose labels the network, its frozen part or its teacher has seen, or will see in this run."""
    earlier = [getattr(source, "seen", ()) for source in (trainee, trainee.trunk, teacher and teacher.extractor)]
    return tuple(dict.fromkeys(itertools.chain(*earlier, classes)))
