"""Everything that decides a training run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from repri.data.datasets.folds import Protocol
from repri.data.datasets.index import MIN_PIXELS

__all__ = ["TrainConfig"]


@dataclass(frozen=True)
class TrainConfig:
    """The defaults are the paper's recipe for PASCAL-5i (§4)."""

    output: str = "runs/base"
    """Folder of the run."""

    data: str = "pascal"
    """pascal, coco or a YAML file."""
    root: str | None = None
    fold: int | None = 0
    """Whose classes are held out; None: nobody's."""
    classes: tuple[str, ...] | None = None
    """Base classes by name; None: all that the fold does not test."""
    min_pixels: int = MIN_PIXELS
    """Of base classes in an image, for it to take part."""
    protocol: Protocol = "clean"
    """Decides the resize rule, the flips, void, Nesterov, the form of label smoothing and what the best epoch is."""
    size: int | None = None
    """Side of the (padded) square; None: what the network wants."""
    images: int | None = None
    """At most so many training images, evenly taken from the list."""

    network: str = "pspnet-resnet50"
    """pspnet-BACKBONE, compact-BACKBONE, or a frozen extractor (hub:NAME, resnet50 …) under a head."""
    weights: str | None = None
    """ImageNet weights of the backbone: a file or a known name."""
    layers: tuple[str | int, ...] | None = None
    """Of a frozen extractor, concatenated."""
    freeze: str = "none"
    """The backbone, or the layer up to which it is frozen; what is frozen runs once, into the feature store. Of a hub
    transformer frozen up to a stage, the blocks after it are trained, without a head."""
    head: Literal["psp", "conv", "discriminant"] = "psp"
    """On a frozen extractor: pyramid pooling and a convolution, the convolution alone, or a linear map that is computed
    in one pass from how the base classes' features vary (``models.discriminant``)."""
    width: int = 512
    kernel: int = 3
    upsample: int = 1
    """Factor by which the head refines the grid of a frozen extractor."""
    dropout: float = 0.1

    teacher: str | None = None
    """An extractor whose features the network learns to give, cell by cell; it runs once, into the feature store."""
    teacher_layers: tuple[str | int, ...] | None = None
    teacher_size: int | None = None
    """Side of the teacher's picture; None: what it wants."""
    teacher_weight: float = 1.0
    """Of 1 − cosine, its mean over the cells of a batch."""
    label_weight: float = 1.0
    """Of the cross-entropy; 0: labels are not looked at, and every image of the list takes part."""

    epochs: int = 100
    batch: int = 12
    """Images per step, over all processes and accumulations."""
    accumulate: int = 1
    """Parts in which a process takes its share of the batch; norms see one part at a time."""
    optimiser: Literal["sgd", "adamw"] = "sgd"
    lr: float = 2.5e-3
    classifier_factor: float = 1.0
    """On lr for the classifier, which starts from nothing."""
    warmup: int = 0
    """Steps over which lr rises to its value."""
    momentum: float = 0.9
    nesterov: bool | None = None
    """None: as the protocol says."""
    weight_decay: float = 1e-4
    smoothing: float = 0.1
    mixup: float = 0.0
    """α of the Beta distribution from which the mixing is drawn; 0: none."""
    loss_stride: int = 1
    """The loss is taken at every so many pixels of the image, in both directions."""
    thin: int = 1
    """In training, what follows the frozen part sees every so many cells in both directions, from a random one on,
    and the loss is taken at their centres: 2 costs a quarter. For the blocks of a transformer, and for a discriminant,
    which is computed from every so many cells."""
    seed: int = 0

    validate_every: int = 1
    """Epochs between validations."""
    validation_images: int | None = None
    """At most so many, evenly taken; None: all."""
    selection_tasks: int = 1000
    """By which ``official`` chooses the best epoch."""
    save_minutes: float = 10.0
    """Between checkpoints; one is also written after each epoch."""
    skip_unreadable: bool = False
    """Open every image first and leave out, by name, those that cannot be read; else such an image is an error."""
    mixed_precision: bool = True
    """Where the device has it."""
    recompute: bool = False
    """Gradient checkpointing: a third more work, less memory (norms then update their running means twice)."""

    @property
    def stepwise(self) -> bool:
        """Whether there are steps and batches at all."""
        return self.head != "discriminant"

    def __post_init__(self) -> None:
        counts = ("epochs", "batch", "accumulate", "width", "upsample", "loss_stride", "thin", "validate_every")
        for name in (*counts, "min_pixels", "selection_tasks"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        weights = ("weight_decay", "mixup", "teacher_weight", "label_weight")
        for name in ("lr", "classifier_factor", "warmup", "save_minutes", *weights):
            if not 0 <= getattr(self, name) < float("inf"):
                raise ValueError(f"{name} must be a number ≥ 0, got {getattr(self, name)}")
        for name in ("momentum", "smoothing", "dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} must lie in [0, 1), got {getattr(self, name)}")
        if self.optimiser not in ("sgd", "adamw"):
            raise ValueError(f"optimiser must be sgd or adamw, got {self.optimiser!r}")
        if self.nesterov and (self.momentum == 0 or self.optimiser != "sgd"):
            raise ValueError("nesterov needs the optimiser sgd and a momentum above 0")
        if self.label_weight == 0 and (self.teacher is None or self.teacher_weight == 0):
            raise ValueError("label_weight: 0 leaves nothing to learn from: give a teacher, with a teacher_weight")
        if self.teacher is not None and (self.mixup > 0 or not self.network.startswith(("compact-", "pspnet-"))):
            raise ValueError("a teacher is for a compact-… or pspnet-…, without mixup")
        if self.label_weight == 0 and self.protocol == "official":
            raise ValueError("label_weight: 0 leaves nothing for the official choice of the best epoch: take clean")
        if self.protocol == "official" and self.fold is None and self.stepwise:
            raise ValueError("fold: official chooses the best epoch by the classes that a fold tests: name one")
        if self.head == "discriminant" and self.epochs != 1:
            raise ValueError(f"head: a discriminant is computed in one pass, set epochs: 1, got {self.epochs}")
        if self.thin > 1 and self.loss_stride > 1:
            raise ValueError("thin takes the loss at the centres of cells: leave loss_stride out")
        for name in ("images", "validation_images", "size", "teacher_size"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
