"""Rules that settings alone must follow; those that need the data or the network are in ``checks``."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any

from repri.protocols import get_protocol
from repri.runtime.errors import RepriError

if TYPE_CHECKING:
    from .settings import TrainSettings

__all__ = ["check_settings"]

AT_LEAST_ONE = (
    "optimiser.epochs",
    "optimiser.batch",
    "optimiser.accumulate",
    "episodes.number",
    "episodes.train_shots",
    "head.width",
    "head.kernel",
    "head.upsample",
    "loss.stride",
    "loss.thin",
    "validation.every",
    "validation.selection_tasks",
    "data.min_pixels",
)
AT_MOST = {"head.width": 16_384, "head.kernel": 31, "head.upsample": 64, "optimiser.batch": 1_000_000}
"""Numbers beyond these ask for more memory than there is."""
AT_LEAST_ONE_OR_NONE = ("data.images", "validation.images", "data.size", "teacher.size")
NOT_NEGATIVE = (
    "optimiser.lr",
    "optimiser.classifier_factor",
    "optimiser.warmup",
    "optimiser.weight_decay",
    "loss.mixup",
    "loss.label_weight",
    "teacher.weight",
    "run.save_minutes",
)
FRACTIONS = ("optimiser.momentum", "loss.smoothing", "head.dropout")
FREEZE = {
    "pspnet": ("none", "backbone", "layer1", "layer2", "layer3", "layer4"),
    "compact": ("none", "layer1", "layer2", "layer3"),
}
"""Family of a network → values of ``network.freeze``."""


def check_settings(settings: TrainSettings) -> None:
    """Raise an error for the first rule that the settings break.

    Args:
        settings: The settings of a run.
    """
    get_protocol(settings.protocol)
    _check_ranges(settings)
    _check_optimiser(settings)
    if settings.episodic:
        _check_episodic(settings)
        return
    _check_base(settings)
    _check_sources(settings)
    _check_head(settings)
    if settings.network.family == "frozen":
        _check_frozen(settings)
    else:
        _check_whole(settings)


def _check_ranges(settings: TrainSettings) -> None:
    """Each number on its own."""
    for name in AT_LEAST_ONE + AT_LEAST_ONE_OR_NONE:
        value = attrgetter(name)(settings)
        if not (value is None and name in AT_LEAST_ONE_OR_NONE) and value < 1:
            raise RepriError(f"{name} must be at least 1, got {value}.")
    for name, most in AT_MOST.items():
        if attrgetter(name)(settings) > most:
            raise RepriError(f"{name} must be at most {most:,}, got {attrgetter(name)(settings):,}.")
    for name in NOT_NEGATIVE:
        if not 0 <= (value := attrgetter(name)(settings)) < float("inf"):
            raise RepriError(f"{name} must be a number ≥ 0, got {value}.")
    for name in FRACTIONS:
        if not 0 <= (value := attrgetter(name)(settings)) < 1:
            raise RepriError(f"{name} must lie in [0, 1), got {value}.")


def _check_optimiser(settings: TrainSettings) -> None:
    optimiser = settings.optimiser
    if optimiser.name not in ("sgd", "adamw"):
        raise RepriError(f"optimiser.name must be sgd or adamw, got {optimiser.name!r}.")
    if optimiser.nesterov and (optimiser.momentum == 0 or optimiser.name != "sgd"):
        raise RepriError("optimiser.nesterov needs the optimiser sgd and a momentum above 0.")
    if (optimiser.schedule == "step") != bool(optimiser.drops) or any(epoch < 1 for epoch in optimiser.drops):
        raise RepriError("optimiser.drops: the schedule step needs epochs ≥ 1 at which the rate drops, no other does.")
    if settings.loss.thin > 1 and settings.loss.stride > 1:
        raise RepriError("loss.thin evaluates the loss at the centres of cells: leave loss.stride out.")


def _check_episodic(settings: TrainSettings) -> None:
    """A method on a frozen extractor: settings of other kinds of training have no effect, so they are errors."""
    for section in ("head", "teacher", "loss"):
        if _is_set(getattr(settings, section)):
            raise RepriError(f"{section}: {settings.method.name} is trained with episodes, which has no such settings.")
    if settings.network.freeze not in ("none", "backbone") or settings.network.recompute:
        raise RepriError(
            "network: episodes use an extractor that is frozen as a whole: leave freeze and recompute out."
        )
    if settings.optimiser.accumulate != 1:
        raise RepriError("optimiser.accumulate: episodes come one at a time: leave it out, and set optimiser.batch.")
    if settings.data.fold is None and settings.episodes.selection == "novel":
        raise RepriError("episodes.selection: novel needs a fold that holds out classes: name a data.fold.")


def _check_base(settings: TrainSettings) -> None:
    if _is_set(settings.episodes) or _is_set(settings.method):
        raise RepriError("episodes: they train a method, and none is named: set method.name, such as pfenet.")


def _is_set(section: Any) -> bool:
    """Whether any setting of a section differs from its default."""
    return section != type(section)()


def _check_sources(settings: TrainSettings) -> None:
    """Labels, the teacher, and how the best epoch is chosen."""
    by_novel_classes = get_protocol(settings.protocol).selection == "novel"
    if settings.teacher.name is not None and (settings.network.family == "frozen" or settings.loss.mixup > 0):
        raise RepriError("A teacher needs a compact-… or pspnet-… network, without mixup.")
    if not settings.labelled:
        if settings.teacher.name is None or settings.teacher.weight == 0:
            raise RepriError("loss.label_weight: 0 leaves nothing to learn from: give a teacher with a teacher.weight.")
        if by_novel_classes:
            raise RepriError(
                f"loss.label_weight: 0 leaves nothing by which {settings.protocol} chooses the best epoch: take clean."
            )
    if by_novel_classes and settings.data.fold is None and settings.stepwise:
        raise RepriError(
            f"data.fold: {settings.protocol} chooses the best epoch by the classes that a fold tests: name a fold."
        )


def _check_head(settings: TrainSettings) -> None:
    head, network = settings.head, settings.network
    if head.name != "discriminant":
        return
    if settings.optimiser.epochs != 1:
        raise RepriError(
            f"head: a discriminant is computed in one pass, set optimiser.epochs: 1, got {settings.optimiser.epochs}."
        )
    if network.family != "frozen" or network.freeze != "backbone" or head.upsample != 1:
        raise RepriError(
            "head: a discriminant sits on a frozen extractor (hub:…, distilled, resnet50 …, or a trained one): "
            "set network.freeze: backbone, and no head.upsample."
        )


def _check_frozen(settings: TrainSettings) -> None:
    """A head, or the last blocks of a transformer, on a frozen extractor."""
    network = settings.network
    if network.freeze == "none":
        raise RepriError(
            f"{network.name} cannot be trained itself: set network.freeze: backbone to train a head on it, or take a "
            "pspnet-… network."
        )
    if network.recompute:
        raise RepriError("network.recompute is for a pspnet-… network.")
    if settings.loss.thin > 1 and network.stage is None and settings.stepwise:
        raise RepriError("loss.thin is for the blocks of a transformer or for a discriminant.")
    if network.stage is not None and (network.layers is not None or settings.head.upsample != 1):
        raise RepriError(
            f"network.freeze: {network.stage} trains the blocks after it, and takes no network.layers or head.upsample."
        )


def _check_whole(settings: TrainSettings) -> None:
    """A pspnet or compact network."""
    network, family = settings.network, settings.network.family
    known = FREEZE[family]
    if network.freeze not in known:
        raise RepriError(f"network.freeze: {network.name} has no layer {network.freeze!r}; known: {', '.join(known)}.")
    if network.freeze != "none" and network.weights is None:
        raise RepriError(
            f"network.freeze: {network.freeze} keeps an untrained backbone as it is: give network.weights."
        )
    if network.layers is not None or settings.head.upsample != 1 or settings.loss.thin > 1:
        raise RepriError(f"{network.name} takes no network.layers, head.upsample or loss.thin.")
    if network.recompute and family == "compact":
        raise RepriError(f"network.recompute is for a pspnet-… network, not for {network.name}.")
