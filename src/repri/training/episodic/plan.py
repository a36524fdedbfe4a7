"""The plan of episodic training. Every mistake is reported here, before the run starts."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from repri.data.datasets.dataset import Dataset
from repri.data.datasets.index import class_lists
from repri.data.tasks.tasks import TaskList, images_of, sample_tasks
from repri.features.extractor import FeatureExtractor
from repri.features.store import FeatureStore
from repri.methods import LearnedMethod, build_method, save_method
from repri.methods.learned import FewShotNetwork, Training
from repri.models.networks.build import BACKBONES, WHOLE
from repri.protocols import get_protocol
from repri.runtime.distributed import World
from repri.runtime.errors import RepriError
from repri.runtime.files import check_cache, check_writable
from repri.training.augment import Flips
from repri.training.build import absolute, load_frozen
from repri.training.checks import check_classes, check_seen
from repri.training.plan import Plan, Progressing
from repri.training.settings import TrainSettings
from repri.training.split import base_classes, check_readable, open_splits, readable
from repri.training.trainee import parameters_of

from .draw import draw_tasks
from .episodes import EpisodeBatch, Episodes
from .images import Images, base_images
from .update import EpisodeLearner
from .validate import validate_tasks

__all__ = ["EpisodicPlan", "prepare_episodic"]

PRICE = (
    "The checkpoint was chosen by tasks of the novel classes, which are the test. Compare it with nothing but the same "
    "run with episodes.selection: base."
)


@dataclass(frozen=True)
class EpisodicPlan(Plan):
    """A method that learns from episodes on a frozen extractor."""

    method: LearnedMethod
    """The method, with a network."""
    episodes: Episodes
    """The episodes for training."""
    validation: Episodes
    """Tasks of base classes in validation images."""
    held_out: Dataset
    """The validation images with all of their classes, for a selection by novel classes."""
    result: ClassVar[str] = "method.safetensors"

    @property
    def module(self) -> FewShotNetwork:
        assert self.method.network is not None
        return self.method.network

    @property
    def extractor(self) -> FeatureExtractor:
        """The frozen extractor."""
        return self.episodes.store.extractor

    @property
    def steps_per_epoch(self) -> int:
        return len(self.episodes) // self.settings.optimiser.batch

    @property
    def identity(self) -> str:
        """Hash of the classes, of the episodes, of the tasks for validation and of the extractor."""
        parts = (self.classes, self.episodes.tasks.hash, self.validation.tasks.hash, self.extractor.identity)
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]

    def frozen(self, steps: Sequence[Sequence[int]] | None = None) -> list[tuple[str, FeatureStore, list[Path]]]:
        parts = (self.episodes, self.validation)
        images = list(itertools.chain(*(images_of(part.dataset, part.tasks) for part in parts)))
        if steps is not None:
            chosen = tuple(self.episodes.tasks.runs[0][place] for places in steps for place in places)
            images = images_of(self.episodes.dataset, replace(self.episodes.tasks, runs=(chosen,)))
        return [("features", self.episodes.store, images)]

    def check_images(self, progress: Progressing | None = None) -> None:
        parts = [(p.dataset, [sample.id for sample in p.dataset.samples]) for p in (self.episodes, self.validation)]
        check_readable(parts, True, progress)

    def order(self, epoch: int) -> list[list[int]]:
        batch = self.settings.optimiser.batch
        return [list(range(i * batch, (i + 1) * batch)) for i in range(self.steps_per_epoch)]

    def batches(self, steps: Sequence[Sequence[int]], epoch: int) -> Iterator[EpisodeBatch]:
        return self.episodes.batches(steps, epoch)

    def updater(self, world: World, device: str) -> EpisodeLearner:
        return EpisodeLearner(self.method, self.settings, world, device)

    def row(self, epoch: int) -> dict[str, Any]:
        seen = epoch * self.steps_per_epoch * self.settings.optimiser.batch
        return {"episodes": seen, "base_miou": "", "episodes_hash": self.episodes.tasks.hash}

    def validate(self, row: dict[str, Any], world: World, device: str) -> float:
        row["base_miou"] = score = validate_tasks(self.method, self.validation, world)
        return score

    def export(self, progress: dict[str, Any]) -> None:
        settings, extractor = self.settings, self.extractor
        layers = settings.network.layers
        more = {
            "weights": settings.network.weights and absolute(settings.network.weights),
            "layers": None if layers is None else list(layers),
            "size": self.episodes.store.size,
            "protocol": settings.protocol,
            "data": settings.data.name,
            "fold": settings.data.fold,
            "images": len(self.episodes.dataset),
            "novel": settings.episodes.novel,
            "selection": settings.selection,
            **({"warning": PRICE} if settings.selection == "novel" else {}),
            "budget": self.steps * settings.optimiser.batch,
            "batch": settings.optimiser.batch,
            "episodes_hash": progress["episodes_hash"],
            "validation_hash": self.validation.tasks.hash,
            "base_miou": progress["base_miou"],
            "seed": settings.seed,
        }
        facts = (absolute(settings.network.name), extractor.identity, extractor.widths, self.classes)
        self.method.training = Training(*facts, settings.episodes.train_shots, progress["episodes"], more)
        save_method(self.target, self.method)

    def drawn(self, device: str) -> np.ndarray | None:
        return draw_tasks(self.method, self.validation)

    def summary(self) -> list[str]:
        settings, drawn, batch = self.settings, self.settings.episodes, self.settings.optimiser.batch
        learned = sum(p.numel() for p in self.module.parameters() if p.requires_grad)
        shots = "1 shot" if drawn.train_shots == 1 else f"{drawn.train_shots} shots"
        return [
            f"{self.method.name} on {self.extractor.name}, protocol {settings.protocol}, fold {settings.data.fold}, "
            f"{len(self.classes)} base classes:",
            "  " + ", ".join(self.classes),
            f"episodes of {shots} from {len(self.episodes.dataset)} images (hash {self.episodes.tasks.hash}), "
            f"{len(self.validation)} tasks for validation, side {self.episodes.store.size}",
            f"{learned / 1e6:.2f} M parameters learned, {parameters_of(self.extractor) / 1e6:.2f} M frozen",
            f"novel pixels: {drawn.novel}; best epoch by: {drawn.selection}",
            f"{self.steps_per_epoch} steps of {batch} episodes in an epoch, {self.steps} in all",
        ]


def prepare_episodic(
    settings: TrainSettings, world: World | None = None, progress: Progressing | None = None, device: str = "cpu"
) -> EpisodicPlan:
    """The plan of episodic training, as :func:`repri.training.prepare` makes it: the list of episodes is drawn, and the
    network of the method is built."""
    _check_batch(settings, world or World())
    check_writable(Path(settings.output).expanduser() / "last.pt")
    check_cache()
    method = _method(settings)  # a wrong name must not wait for the data
    dataset, held_out = open_splits(settings)
    base = base_classes(settings.data, dataset)
    check_classes(settings, dataset, base)
    extractor = _extractor(settings, device)
    check_seen(settings, dataset, extractor.seen)
    protocol = get_protocol(settings.protocol)
    store = FeatureStore(extractor, protocol.resize, settings.data.size, precision=protocol.precision)
    if "classes" in method.options():  # it also learns to name the base classes
        method = _method(settings, {"classes": len(base)})
    method.start(extractor.widths, settings.seed)
    skipped: list[str] = []

    def images(data: Dataset, most: int | None) -> Images:
        if settings.data.skip_unreadable:  # before masks are counted: one of them may be unreadable
            data, lost = readable(data, True)
            skipped.extend(lost)
        return base_images(data, base, settings.data.min_pixels, settings.episodes.novel, most, progress)

    training, others = images(dataset, settings.data.images), images(held_out, settings.validation.images)
    tasks = _draw(settings, training, base, settings.episodes.number, settings.optimiser.epochs)
    episodes = Episodes(training.dataset, tasks, store, Flips(mirror=True), settings.seed)
    tested = _with_enough(others, base, settings.episodes.train_shots)
    tasks = _draw(settings, others, tested, settings.validation.selection_tasks, 1)
    validation = Episodes(others.dataset, tasks, store)
    classes = tuple(dataset.classes[id] for id in base)
    return EpisodicPlan(settings, classes, list(dict.fromkeys(skipped)), method, episodes, validation, held_out)


def _draw(settings: TrainSettings, images: Images, classes: Sequence[int], number: int, runs: int) -> TaskList:
    """Tasks over the classes; classes are drawn evenly, and then their images."""
    drawn = (settings.episodes.train_shots, number, runs, settings.seed, "classes")
    return sample_tasks(images.dataset, classes, *drawn, images.index)


def _with_enough(images: Images, classes: Sequence[int], shots: int) -> Sequence[int]:
    """The classes with enough images for a task; all of them if none has, for the message."""
    lists = class_lists(images.dataset, images.index)
    return [id for id in classes if len(lists[id]) > shots] or classes


def _check_batch(settings: TrainSettings, world: World) -> None:
    """The processes divide the episodes of a step evenly, and an epoch has a step."""
    batch, number, warmup = settings.optimiser.batch, settings.episodes.number, settings.optimiser.warmup
    if batch % world.size:
        raise RepriError(f"A batch of {batch} episodes cannot be divided among {world.size} processes.")
    if number < batch:
        raise RepriError(f"episodes.number: {number} episodes do not fill a batch of {batch}.")
    if warmup > number // batch * settings.optimiser.epochs:
        raise RepriError(f"optimiser.warmup takes {warmup} steps, more than the run has: make it shorter.")


def _method(settings: TrainSettings, more: Mapping[str, Any] | None = None) -> LearnedMethod:
    """The method with its settings, and with ``more`` where they leave something open."""
    method = build_method(str(settings.method.name), settings={**(more or {}), **settings.method.settings})
    if not isinstance(method, LearnedMethod):
        raise RepriError(f"method: {settings.method.name} has no network, so there is nothing to train.")
    return method


def _extractor(settings: TrainSettings, device: str) -> FeatureExtractor:
    network = settings.network
    if network.name in (*BACKBONES, *WHOLE) and network.weights is None:
        raise RepriError(
            f"network: {network.name} without weights is untrained, and episodes keep it so: give network.weights, or "
            "another extractor, such as hub:facebook/dinov2-small or distilled."
        )
    return load_frozen(network.name, device, network.layers, network.weights)
