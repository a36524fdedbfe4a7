"""The plan of base training. Every mistake is reported here, before the run starts."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch

from repri.data.datasets.dataset import Dataset
from repri.features.store import FeatureStore
from repri.protocols import get_protocol
from repri.runtime.distributed import World
from repri.runtime.errors import RepriError
from repri.runtime.files import check_cache, check_writable

from .augment import Flips
from .batches import Batch, Examples, order
from .build import build_trainee, load_frozen
from .checks import check_batch, check_classes, check_seen, check_size, check_steps
from .discriminant import fit_discriminant, measure_images
from .plan import Plan, Progressing, Report
from .settings import TrainSettings
from .split import base_classes, base_labels, check_readable, choose_images, open_splits, readable
from .square import Square
from .trainee import Trainee, parameters_of
from .update import Learner
from .validate import validate
from .watch import draw_predictions

__all__ = ["BasePlan", "prepare_base"]


@dataclass(frozen=True)
class BasePlan(Plan):
    """Base training: cross-entropy on the base classes, or features of a teacher."""

    trainee: Trainee
    """The network."""
    examples: Examples
    """The images for training."""
    validation: Examples
    """The images for validation."""
    result: ClassVar[str] = "model.safetensors"

    @property
    def module(self) -> Trainee:
        return self.trainee

    @property
    def steps_per_epoch(self) -> int:
        return len(self.examples) // self.settings.optimiser.batch

    @property
    def identity(self) -> str:
        """Hash of the classes, of the names of all images in their order, of the frozen part and of the teacher."""
        networks = [store.extractor.identity for _, store, _ in self.frozen()]  # on any device
        parts = (self.classes, self.examples.ids, self.validation.ids, networks)
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]

    def frozen(self, steps: Sequence[Sequence[int]] | None = None) -> list[tuple[str, FeatureStore, list[Path]]]:
        wanted: dict[int, tuple[str, FeatureStore, list[Path]]] = {}
        chosen = [(self.examples, range(len(self.examples))), (self.validation, range(len(self.validation)))]
        if steps is not None:
            chosen = [(self.examples, list(itertools.chain(*steps)))]
        for part, places in chosen:
            for name, store in (("features", part.features), ("teacher's features", part.teacher)):
                if store is not None:
                    _, _, images = wanted.setdefault(id(store), (name, store, []))
                    images += [part.path(place) for place in places]
        return list(wanted.values())

    def check_images(self, progress: Progressing | None = None) -> None:
        parts = [(part.dataset, part.ids) for part in (self.examples, self.validation)]
        check_readable(parts, self.settings.labelled, progress)

    def order(self, epoch: int) -> list[list[int]]:
        return order(len(self.examples), self.settings.optimiser.batch, self.settings.seed, epoch)

    def batches(self, steps: Sequence[Sequence[int]], epoch: int) -> Iterator[Batch]:
        return self.examples.batches(steps, epoch)

    def updater(self, world: World, device: str) -> Learner:
        return Learner(self.trainee, self.settings, world, device)

    def row(self, epoch: int) -> dict[str, Any]:
        return {"base_miou": "", "teacher_cosine": ""}

    def validate(self, row: dict[str, Any], world: World, device: str) -> float:
        result = validate(self.trainee, self.validation, len(self.classes) + 1, world, device)
        score = float("nan")
        if self.settings.teacher.name is not None:
            row["teacher_cosine"] = score = result.cosine
        if self.settings.labelled:
            row["base_miou"] = score = result.miou
        return score

    def export(self, progress: dict[str, Any]) -> None:
        self.trainee.export(self.target)

    @property
    def one_pass(self) -> BasePlan | None:
        return None if self.settings.stepwise else self

    def fit(self, world: World, report: Report | None, device: str) -> None:
        fit_discriminant(self, world, report, device)

    def measure_fit(self) -> tuple[float, int]:
        return measure_images(self), len(self.examples)

    def drawn(self, device: str) -> np.ndarray | None:
        return None if self.trainee.last is None else draw_predictions(self.trainee, self.validation, device)

    def summary(self) -> list[str]:
        settings, parameters = self.settings, list(self.trainee.parameters())
        learned = sum(p.numel() for p in parameters if p.requires_grad)
        frozen = sum(p.numel() for p in parameters if not p.requires_grad)
        if self.trainee.trunk is not None and not frozen:
            frozen = parameters_of(self.trainee.trunk)
        size, batch = self.examples.square.size, settings.optimiser.batch
        return [
            f"{settings.network.name}, protocol {settings.protocol}, fold {settings.data.fold}, "
            f"{len(self.classes)} base classes:",
            "  " + ", ".join(self.classes),
            f"{len(self.examples)} training images, {len(self.validation)} for validation, side {size}",
            f"{learned / 1e6:.2f} M parameters learned, {frozen / 1e6:.2f} M frozen",
            f"{self.steps_per_epoch} steps of {batch} images in an epoch, {self.steps} in all"
            if settings.stepwise
            else "one pass over the features, then algebra",
        ]


def prepare_base(
    settings: TrainSettings, world: World | None = None, progress: Progressing | None = None, device: str = "cpu"
) -> BasePlan:
    """The plan of base training, as :func:`repri.training.prepare` makes it."""
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
    return BasePlan(settings, classes, list(dict.fromkeys(skipped)), trainee, training, validation)


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
