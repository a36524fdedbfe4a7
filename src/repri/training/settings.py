"""Every setting of a training run, nested by subject. This module is free of torch: the flags are generated from it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from repri.protocols import get_protocol

from .rules import check_settings

__all__ = [
    "RENAMED",
    "DataSettings",
    "EpisodeSettings",
    "HeadSettings",
    "LossSettings",
    "MethodSettings",
    "NetworkSettings",
    "OptimiserSettings",
    "RunSettings",
    "TeacherSettings",
    "TrainSettings",
    "ValidationSettings",
]

RENAMED = {
    "size": "data.size",
    "images": "data.images",
    "layers": "network.layers",
    "teacher_layers": "teacher.layers",
    "teacher_size": "teacher.size",
    "teacher_weight": "teacher.weight",
    "loss_stride": "loss.stride",
    "validate_every": "validation.every",
    "validation_images": "validation.images",
}
"""Names of settings in files from before there were sections, where the name has changed too or is in two sections."""


@dataclass(frozen=True)
class DataSettings:
    """Images and classes that the network is trained on."""

    name: str = "pascal"
    """Data set: pascal, coco, scenes, or a YAML file that describes one."""
    root: str | None = None
    """Folder of the data set."""
    fold: int | None = 0
    """Fold whose classes are held out for testing; none: train on all classes. It replaces {fold} in the output."""
    classes: tuple[str, ...] | None = None
    """Names of the base classes; without it, all classes that the fold does not test."""
    min_pixels: int = 2048
    """Pixels of a base class that an image needs to take part in training."""
    images: int | None = field(default=None, metadata={"flag": "images"})
    """Largest number of training images, taken evenly from the list; without it, all of them."""
    size: int | None = field(default=None, metadata={"flag": "size"})
    """Side of the network's square input in pixels; without it, the size that suits the network."""
    skip_unreadable: bool = False
    """Open every image first, and leave out those that cannot be read; otherwise such an image stops the run."""


@dataclass(frozen=True)
class NetworkSettings:
    """The network that is trained, or the frozen extractor under a head."""

    name: str = "pspnet-resnet50"
    """Network: pspnet-BACKBONE, compact-BACKBONE, or an extractor (hub:NAME, resnet50, a file) that is frozen under a
    head."""
    weights: str | None = None
    """Weights from which the backbone starts: a file or a known name."""
    layers: tuple[str | int, ...] | None = field(default=None, metadata={"flag": "layers"})
    """Layers of a frozen extractor whose features are concatenated."""
    freeze: str = "none"
    """Part that is frozen and runs only once, into the feature store: none, backbone, or the name of the last frozen
    layer. A transformer of the hub that is frozen up to a stage trains the blocks after it, without a head."""
    recompute: bool = False
    """Gradient checkpointing for a pspnet: less memory for a third more work; norms update their means twice."""

    @property
    def family(self) -> Literal["pspnet", "compact", "frozen"]:
        """Whether a PSPNet, a compact network, or something on a frozen extractor is trained."""
        if self.name.startswith("pspnet-"):
            return "pspnet"
        return "compact" if self.name.startswith("compact-") else "frozen"

    @property
    def backbone(self) -> str:
        """Name of the backbone inside a pspnet or compact network."""
        return self.name.removeprefix(f"{self.family}-")

    @property
    def stage(self) -> str | None:
        """The last frozen stage of a transformer whose later blocks are trained; None for anything else."""
        return self.freeze if self.family == "frozen" and self.freeze not in ("none", "backbone") else None


@dataclass(frozen=True)
class MethodSettings:
    """A method that is trained with episodes on a frozen extractor; without one, a run is base training."""

    name: str | None = None
    """Method that is trained with episodes: panet, ppnet, rpmm, pfenet, or one that another package adds; without it,
    base training."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Single settings of the method, such as width: 128; on the command line --set width=128."""


@dataclass(frozen=True)
class EpisodeSettings:
    """Episodes: tasks that are drawn from the base classes. Only a method is trained with them."""

    number: int = field(default=1000, metadata={"flag": "episodes"})
    """Episodes in an epoch; each step takes optimiser.batch of them, one at a time."""
    train_shots: int = 1
    """Support images of each episode."""
    novel: Literal["ignore", "background", "drop"] = "ignore"
    """Pixels of classes that are not trained on: they are 255 in the loss and in no prototype, they are background, or
    images that have any of them are left out."""
    selection: Literal["base", "novel", "last"] = "base"
    """Tasks by which the best epoch is chosen: of base classes in validation images, of novel classes (this looks at
    the test; it exists to measure what that is worth), or none: the last epoch is kept."""


@dataclass(frozen=True)
class HeadSettings:
    """The part that is trained on top of the backbone or of a frozen extractor."""

    name: Literal["psp", "conv", "discriminant"] = "psp"
    """Head on a frozen extractor: pyramid pooling and a convolution, a convolution alone, or a linear map that is
    computed in one pass from how the features of the base classes vary."""
    width: int = 512
    """Channels of the features that the head gives."""
    kernel: int = 3
    """Side of the head's convolution, in cells."""
    upsample: int = 1
    """Factor by which the head refines the grid of a frozen extractor."""
    dropout: float = 0.1
    """Fraction of the head's channels that are dropped in training."""


@dataclass(frozen=True)
class TeacherSettings:
    """An extractor whose features the network learns to give, cell by cell."""

    name: str | None = None
    """Extractor whose features the network learns to give; it runs once, into the feature store."""
    layers: tuple[str | int, ...] | None = None
    """Layers of the teacher whose features are concatenated."""
    size: int | None = None
    """Side of the teacher's images in pixels; without it, the size that suits the teacher."""
    weight: float = field(default=1.0, metadata={"flag": "teacher-weight"})
    """Weight of the loss 1 − cosine, which is averaged over the cells of a batch."""


@dataclass(frozen=True)
class LossSettings:
    """The objective, and where it is evaluated."""

    label_weight: float = 1.0
    """Weight of the cross-entropy; 0: labels are not read, and every image takes part."""
    smoothing: float = 0.1
    """Label smoothing ε."""
    mixup: float = 0.0
    """α of the Beta distribution from which mixup's proportions are drawn; 0: no mixup."""
    stride: int = field(default=1, metadata={"flag": "loss-stride"})
    """Pixels between those at which the cross-entropy is evaluated, in both directions."""
    thin: int = 1
    """Train on every n-th cell in both directions, from a random first one: 2 costs a quarter. This is for the blocks
    of a transformer, and for a discriminant, which is then computed from every n-th cell."""


@dataclass(frozen=True)
class OptimiserSettings:
    """Steps: how many, how large, and by which rule."""

    name: Literal["sgd", "adamw"] = "sgd"
    """Rule by which parameters are updated."""
    lr: float = 2.5e-3
    """Learning rate at the start of the schedule."""
    schedule: Literal["cosine", "poly", "step"] = "cosine"
    """How the learning rate falls: by a cosine, by (1 − t/T)^0.9, or to a tenth after each of the epochs in drops."""
    drops: tuple[int, ...] = ()
    """Epochs after which the schedule step divides the learning rate by 10."""
    classifier_factor: float = 1.0
    """Factor on the learning rate of the classifier, which starts from random values."""
    warmup: int = 0
    """Steps over which the learning rate rises to its value."""
    momentum: float = 0.9
    """Momentum of sgd."""
    nesterov: bool | None = None
    """Use Nesterov momentum; without it, the protocol decides."""
    weight_decay: float = 1e-4
    """Weight decay."""
    epochs: int = 100
    """Passes over the training images."""
    batch: int = 12
    """Images, or episodes, in each step, over all processes and accumulated parts."""
    accumulate: int = 1
    """Parts into which each process divides its images of a batch; norms see one part at a time. Episodes always come
    one at a time."""


@dataclass(frozen=True)
class ValidationSettings:
    """How often, and on what, the network is validated."""

    every: int = field(default=1, metadata={"flag": "validate-every"})
    """Epochs between validations."""
    images: int | None = None
    """Largest number of validation images, taken evenly from the list; without it, all of them."""
    selection_tasks: int = 1000
    """Few-shot tasks by which the best epoch is chosen, where tasks choose it: always after episodes, and in base
    training under a protocol that looks at the novel classes."""


@dataclass(frozen=True)
class RunSettings:
    """How the program runs; apart from the rounding of mixed precision, nothing here changes what is learned."""

    save_minutes: float = 10.0
    """Minutes between checkpoints; one is also written after each epoch."""
    mixed_precision: bool = True
    """Use mixed precision on a GPU."""
    mixed_precision_on_cpu: bool = False
    """Use mixed precision on a CPU too. Processors with bfloat16 instructions train two to three times as fast."""


@dataclass(frozen=True)
class TrainSettings:
    """Everything that decides a training run. The defaults are the paper's recipe for PASCAL-5i (§4).

    Example:
        >>> TrainSettings(optimiser=OptimiserSettings(epochs=5)).optimiser.lr
        0.0025
        >>> TrainSettings(optimiser=OptimiserSettings(epochs=0))
        Traceback (most recent call last):
        repri.runtime.errors.RepriError: optimiser.epochs must be at least 1, got 0.
    """

    output: str = "runs/base"
    """Folder of the run."""
    protocol: str = "clean"
    """Protocol: clean, paper or official. It decides resizing, flips, void pixels, Nesterov momentum, label smoothing
    and how the best epoch is chosen."""
    seed: int = 0
    """Seed of every random number."""
    data: DataSettings = field(default_factory=DataSettings)
    """Images and classes."""
    network: NetworkSettings = field(default_factory=NetworkSettings)
    """Network."""
    head: HeadSettings = field(default_factory=HeadSettings)
    """Head."""
    teacher: TeacherSettings = field(default_factory=TeacherSettings)
    """Teacher."""
    method: MethodSettings = field(default_factory=MethodSettings)
    """Method that is trained with episodes."""
    episodes: EpisodeSettings = field(default_factory=EpisodeSettings)
    """Episodes."""
    loss: LossSettings = field(default_factory=LossSettings)
    """Loss."""
    optimiser: OptimiserSettings = field(default_factory=OptimiserSettings)
    """Optimiser."""
    validation: ValidationSettings = field(default_factory=ValidationSettings)
    """Validation."""
    run: RunSettings = field(default_factory=RunSettings)
    """Run."""

    @property
    def stepwise(self) -> bool:
        """Whether the network learns in steps; a discriminant is computed in one pass."""
        return self.head.name != "discriminant"

    @property
    def episodic(self) -> bool:
        """Whether a method is trained with episodes."""
        return self.method.name is not None

    @property
    def selection(self) -> Literal["base", "novel", "last"]:
        """How the best epoch is chosen; for base training, the protocol decides."""
        return self.episodes.selection if self.episodic else get_protocol(self.protocol).selection

    @property
    def labelled(self) -> bool:
        """Whether labels are read at all."""
        return self.loss.label_weight > 0

    def __post_init__(self) -> None:
        check_settings(self)
