"""What a run will do, with every mistake found before it starts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from repri.data.augment import AUGMENTATIONS
from repri.data.dataset import Dataset
from repri.data.index import class_index, class_lists
from repri.data.open import open_dataset, splits_of
from repri.data.store import FeatureStore
from repri.distributed import World
from repri.files import check_writable
from repri.settings import nearest

from .batches import Examples, base_labels, evenly
from .config import TrainConfig
from .network import Trainee, build_trainee

__all__ = ["Plan", "prepare"]


@dataclass(frozen=True)
class Plan:
    config: TrainConfig
    classes: tuple[str, ...]
    """Base classes; their labels are 1, 2, …; background is 0."""
    trainee: Trainee
    examples: Examples
    validation: Examples

    @property
    def steps_per_epoch(self) -> int:
        return len(self.examples) // self.config.batch

    @property
    def steps(self) -> int:
        return self.steps_per_epoch * self.config.epochs

    @property
    def folder(self) -> Path:
        return Path(self.config.output)


def prepare(
    config: TrainConfig, world: World | None = None, progress: Callable[[int, int], None] | None = None
) -> Plan:
    """Open the data, build the network. Nothing is written yet, save the count of classes in the cache."""
    world = world or World()
    if config.batch % (world.size * config.accumulate):
        raise ValueError(
            f"a batch of {config.batch} cannot be shared by {world.size} processes in {config.accumulate} parts each"
        )
    check_writable(Path(config.output) / "last.pt")
    splits = splits_of(config.data)
    dataset = open_dataset(config.data, config.root, "train", config.protocol)
    held_out = open_dataset(config.data, config.root, "val" if "val" in splits else "train", config.protocol)
    base = _base_classes(config, dataset)
    torch.manual_seed(config.seed)
    trainee = build_trainee(config, len(base) + 1)
    size = config.size or trainee.rule.size
    multiple = trainee.rule.multiple
    if size % multiple:
        raise ValueError(f"size must be a multiple of {multiple} for {config.network}, got {size}")
    store = None
    if trainee.trunk is not None:
        store = FeatureStore(trainee.trunk, config.protocol, size)

    def examples(data: Dataset, most: int | None, augmentation: str, skip: bool) -> Examples:
        lists = class_lists(data, class_index(data, progress=progress))
        wanted = {id for c in base for id in lists[c]}
        ids = evenly([sample.id for sample in data.samples if sample.id in wanted], most)
        table = base_labels(data, base, config.protocol)
        how = AUGMENTATIONS[augmentation]
        return Examples(data, ids, table, config.protocol, size, trainee.rule, how, config.seed, store, skip)

    plan = Plan(
        config,
        tuple(dataset.classes[id] for id in base),
        trainee,
        examples(dataset, config.images, config.protocol, config.skip_unreadable),
        examples(held_out, config.validation_images, "none", False),
    )
    if plan.steps_per_epoch < 1:
        raise ValueError(f"{len(plan.examples)} images do not fill a batch of {config.batch}: take a smaller batch")
    return plan


def _base_classes(config: TrainConfig, dataset: Dataset) -> tuple[int, ...]:
    if config.classes is None:
        return dataset.base(config.fold)
    novel = {dataset.classes[id] for id in dataset.novel(config.fold)}
    for name in config.classes:
        if name not in dataset.classes.values():
            raise ValueError(f"{dataset.name} has no class {name!r}{nearest(name, list(dataset.classes.values()))}")
        if name in novel:
            raise ValueError(f"classes: {name!r} is tested by fold {config.fold}, so it cannot be trained on")
    return tuple(id for id, name in dataset.classes.items() if name in config.classes)
