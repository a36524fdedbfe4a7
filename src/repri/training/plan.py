"""What a run will do, with every mistake found before it starts."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from repri.data.datasets.dataset import Dataset
from repri.data.datasets.index import class_index, class_lists
from repri.data.datasets.open import open_dataset, splits_of
from repri.data.io.classes import among
from repri.features.store import FeatureStore
from repri.models.load import load_extractor
from repri.runtime.distributed import World
from repri.runtime.files import check_cache, check_writable
from repri.runtime.parallel import parallel
from repri.runtime.settings import nearest

from .augment import AUGMENTATIONS
from .batches import Examples, base_labels, evenly
from .config import TrainConfig
from .network import Trainee, build_trainee

__all__ = ["Plan", "prepare"]

MOST_CLASSES = 254
"""Labels are bytes, and 255 is ignored."""


@dataclass(frozen=True)
class Plan:
    config: TrainConfig
    classes: tuple[str, ...]
    """Base classes; their labels are 1, 2, …; background is 0."""
    trainee: Trainee
    examples: Examples
    validation: Examples
    skipped: list[str]
    """Images that cannot be read, where they may be left out."""

    @property
    def steps_per_epoch(self) -> int:
        return len(self.examples) // self.config.batch

    @property
    def steps(self) -> int:
        return self.steps_per_epoch * self.config.epochs

    @property
    def folder(self) -> Path:
        return Path(self.config.output).expanduser()

    @property
    def identity(self) -> str:
        """Hash of the classes, of the names of all images in their order, and of what is frozen and the teacher."""
        networks = [store.extractor.identity for _, store, _ in self.frozen()]  # on any device
        parts = (self.classes, self.examples.ids, self.validation.ids, networks)
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]

    def frozen(self) -> list[tuple[str, FeatureStore, list[Path]]]:
        """What runs once, before training: what it gives, where that is kept, and the images."""
        wanted: dict[int, tuple[str, FeatureStore, list[Path]]] = {}
        for part in (self.examples, self.validation):
            for name, store in (("features", part.store), ("teacher's features", part.teacher)):
                if store is not None:
                    _, _, images = wanted.setdefault(id(store), (name, store, []))
                    images += [part.image(place) for place in range(len(part))]
        return list(wanted.values())

    def check_images(self, progress: Callable[[int, int], None] | None = None) -> None:
        """Read every image and mask that the run will, and raise what is wrong with the first bad one."""
        done, total = 0, len(self.examples) + len(self.validation)
        for part in (self.examples, self.validation):
            for problem in parallel(lambda id, part=part: _unreadable(part.dataset, id, part.labelled), part.ids):
                if problem is not None:
                    raise problem
                done += 1
                if progress:
                    progress(done, total)

    def check_folder(self, resume: bool) -> None:
        """A run must not write over another, and cannot go on where there is none."""
        names = ("last.pt", "model.safetensors", "config.yaml")
        there, done, begun = ((self.folder / name).exists() for name in names)
        if done and not there:
            raise ValueError(
                f"{self.folder} holds a network already, and no last.pt to go on from: choose another folder"
            )
        if resume and not there and not begun:
            raise ValueError(f"there is nothing to resume: {self.folder / 'last.pt'} does not exist")
        if there and not resume:
            raise ValueError(f"{self.folder} holds a run already: go on with --resume, or choose another folder")


def prepare(
    config: TrainConfig,
    world: World | None = None,
    progress: Callable[[int, int], None] | None = None,
    device: str = "cpu",
) -> Plan:
    """Open the data, build the network. Nothing is written yet, save the count of classes in the cache."""
    world = world or World()
    if config.stepwise and config.batch % (world.size * config.accumulate):
        raise ValueError(
            f"a batch of {config.batch} cannot be shared by {world.size} processes in {config.accumulate} parts each"
        )
    together = config.accumulate * (world.size if config.mixup > 0 else 1)  # norms look at all processes, mixup at one
    if config.stepwise and config.batch // together < 2:
        raise ValueError("each part of a batch needs two images, for norms and mixup: fewer parts, or a larger batch")
    check_writable(Path(config.output).expanduser() / "last.pt")
    splits = splits_of(config.data)
    dataset = open_dataset(config.data, config.root, "train", config.protocol)
    held_out = open_dataset(config.data, config.root, "val" if "val" in splits else "train", config.protocol)
    base = _base_classes(config, dataset)
    if not 1 <= len(base) <= MOST_CLASSES:
        raise ValueError(
            f"{dataset.name}, fold {config.fold}: {len(base)} classes to train on, there must be 1 to {MOST_CLASSES}; "
            "fold: null holds none out, classes: […] names them"
        )
    if config.protocol == "official" and config.smoothing * (len(base) + 1) > len(base):
        raise ValueError(
            f"smoothing: official spreads it over {len(base)} other classes, {config.smoothing} takes more than all "
            f"from a label: at most {len(base) / (len(base) + 1):.3g}"
        )
    torch.manual_seed(config.seed)
    trainee = build_trainee(config, len(base) + 1, device)
    size = config.size or trainee.rule.size
    multiple = trainee.rule.multiple
    if size % multiple:
        raise ValueError(f"size must be a multiple of {multiple} for {config.network}, got {size}")
    if config.stepwise and (size - trainee.aligned(size)) % config.loss_stride:
        raise ValueError(f"loss_stride must divide {size - trainee.aligned(size)} here, got {config.loss_stride}")
    if config.thin > size // trainee.stride:
        raise ValueError(f"thin: there are {size // trainee.stride} cells in a row, got {config.thin}")
    store = trained_on = None
    if trainee.trunk is not None or config.teacher is not None:
        check_cache()
    if trainee.trunk is not None:
        store = trained_on = FeatureStore(trainee.trunk, config.protocol, size)
        if not config.stepwise and (coarse := trainee.trunk.coarse(config.thin)) is not trainee.trunk:
            trained_on = FeatureStore(coarse, config.protocol, size)
    teacher = None if config.teacher is None else _teacher(config, trainee, device)
    labelled = config.label_weight > 0
    earlier = [getattr(source, "seen", ()) for source in (trainee, trainee.trunk, teacher and teacher.extractor)]
    names = [dataset.classes[c] for c in base] if labelled else []
    trainee.seen = tuple(dict.fromkeys(itertools.chain(*earlier, names)))
    tested = () if config.fold is None else (dataset.classes[c] for c in dataset.novel(config.fold))
    if spoilt := among(tested, trainee.seen):
        raise ValueError(
            f"fold {config.fold} tests {', '.join(spoilt)}, whose labels what this starts from (network, weights or "
            "teacher) has seen: take another, or fold: null"
        )

    skipped: list[str] = []

    def examples(data: Dataset, most: int | None, augmentation: str, features: FeatureStore | None) -> Examples:
        if config.skip_unreadable:  # before masks are looked at: one of them may be what cannot be read
            fine = parallel(lambda sample: (sample, _unreadable(data, sample.id, labelled)), data.samples)
            kept, lost = [], []
            for sample, problem in fine:
                (lost if problem else kept).append(sample)
            skipped.extend(sample.id for sample in lost)
            data = replace(data, samples=tuple(kept))
        ids = [sample.id for sample in data.samples]
        if labelled and ids:
            lists = class_lists(data, class_index(data, config.min_pixels, progress=progress))
            wanted = {id for c in base for id in lists[c]}
            ids = [id for id in ids if id in wanted]
        if not ids:
            raise ValueError(
                f"{data.name} {data.split} has no image with {config.min_pixels} pixels of a base class: set min_pixels"
            )
        table = base_labels(data, base, config.protocol)
        how = AUGMENTATIONS[augmentation]
        return Examples(
            data,
            evenly(ids, most),
            table,
            config.protocol,
            size,
            trainee.rule,
            how,
            config.seed,
            features,
            teacher,
            trainee.stride,
            labelled,
        )

    plan = Plan(
        config,
        tuple(dataset.classes[id] for id in base),
        trainee,
        examples(dataset, config.images, config.protocol if config.stepwise else "none", trained_on),
        examples(held_out, config.validation_images, "none", store),
        list(dict.fromkeys(skipped)),
    )
    if not config.stepwise:
        return plan
    if plan.steps_per_epoch < 1:
        raise ValueError(f"{len(plan.examples)} images do not fill a batch of {config.batch}: take a smaller batch")
    if config.warmup > plan.steps:
        raise ValueError(f"warmup takes {config.warmup} of {plan.steps} steps: make it shorter")
    return plan


def _teacher(config: TrainConfig, trainee: Trainee, device: str) -> FeatureStore:
    """Where the teacher's features are kept; they must be as wide as the network's."""
    assert config.teacher is not None
    place: dict[str, Any] = {} if config.teacher == "filters" else {"device": device}
    teacher = load_extractor(config.teacher, layers=config.teacher_layers, **place)
    if teacher.channels != config.width:
        raise ValueError(f"width: the teacher gives {teacher.channels} channels, and the network {config.width}")
    return FeatureStore(teacher, config.protocol, config.teacher_size)


def _unreadable(dataset: Dataset, id: str, labelled: bool) -> Exception | None:
    """What is wrong with an image or its mask."""
    try:
        dataset.pair(id) if labelled else dataset.image(id)
    except (ValueError, OSError) as error:
        return error
    return None


def _base_classes(config: TrainConfig, dataset: Dataset) -> tuple[int, ...]:
    held_out = () if config.fold is None else dataset.novel(config.fold)
    if config.classes is None:
        return tuple(id for id in dataset.classes if id not in held_out)
    novel = {dataset.classes[id] for id in held_out}
    for name in config.classes:
        if name not in dataset.classes.values():
            raise ValueError(f"{dataset.name} has no class {name!r}{nearest(name, list(dataset.classes.values()))}")
        if name in novel:
            raise ValueError(f"classes: {name!r} is tested by fold {config.fold}, so it cannot be trained on")
    return tuple(id for id, name in dataset.classes.items() if name in config.classes)
