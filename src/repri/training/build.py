"""From settings to the network that is trained."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from repri.features.extractor import IMAGENET, FeatureExtractor
from repri.models.extractors.network import NetworkExtractor
from repri.models.heads.blocks import continue_transformer
from repri.models.heads.convolution import Head
from repri.models.heads.discriminant import Discriminant
from repri.models.heads.files import AnyHead
from repri.models.load import EXTRACTORS, load_extractor
from repri.models.networks.build import build_backbone
from repri.models.networks.mobile import CompactNet, MobileNet
from repri.models.networks.pspnet import PSPNet
from repri.models.networks.resnet import ResNet
from repri.models.networks.vgg import VGG16
from repri.models.weights.checkpoints import Checkpoint, load_checkpoint, read_checkpoint
from repri.models.weights.known import find_weights
from repri.runtime.errors import RepriError

from .checks import check_network
from .settings import NetworkSettings, TrainSettings
from .trainee import CompactTrainee, HeadTrainee, PSPTrainee, Trainee

__all__ = ["absolute", "build_trainee", "load_frozen"]


def build_trainee(settings: TrainSettings, classes: int, device: str = "cpu") -> Trainee:
    """Build the network of a run. Its random values follow from torch's seed, which the caller sets.

    Args:
        settings: Settings of the run.
        classes: Number of classes, background included.
        device: Device on which the frozen part runs.

    Returns:
        The network, on the CPU.
    """
    check_network(settings.network)
    builders = {"pspnet": _build_pspnet, "compact": _build_compact, "frozen": _build_head}
    return builders[settings.network.family](settings, classes, device)


def load_frozen(name: str, device: str, layers: Any = None, weights: str | None = None) -> FeatureExtractor:
    """A frozen extractor on a device; the filter bank has none."""
    place: dict[str, Any] = {} if name == "filters" else {"device": device}
    return load_extractor(name, weights, layers=layers, **place)


def _build_pspnet(settings: TrainSettings, classes: int, device: str) -> PSPTrainee:
    network, name = settings.network, settings.network.backbone
    frozen = {"none": None, "backbone": "layer4"}.get(network.freeze, network.freeze)
    architecture: dict[str, Any] = {"backbone": name}
    seen: tuple[str, ...] = ()
    if network.weights is None:
        backbone = build_backbone(name)
    else:
        start = _start(network)
        seen = tuple(start.config.get("seen", ()))
        backbone = load_checkpoint(start, whole=False)
        architecture = {key: value for key, value in start.config.items() if key not in ("classes", "size", "seen")}
    assert isinstance(backbone, ResNet | VGG16)
    pspnet = PSPNet(backbone, classes, settings.head.width, settings.head.dropout)
    trunk = None if frozen is None else load_frozen(name, device, (frozen,), network.weights)
    architecture |= {"classes": classes, "size": settings.data.size or IMAGENET.size}
    trainee = PSPTrainee(pspnet, architecture, trunk, frozen, network.recompute)
    trainee.seen = seen
    return trainee


def _build_compact(settings: TrainSettings, classes: int, device: str) -> CompactTrainee:
    network, name, width = settings.network, settings.network.backbone, settings.head.width
    frozen = None if network.freeze == "none" else network.freeze
    counted = classes if settings.labelled else None
    stride: dict[str, Any] = {"dilated": False}
    checkpoint = None if network.weights is None else _start(network)
    start = build_backbone(name, **stride) if checkpoint is None else load_checkpoint(checkpoint, **stride)
    if isinstance(start, CompactNet):  # trained before: only the classifier is new
        compact = CompactNet(start.backbone, counted, start.channels["bottleneck"])
        kept = {key: value for key, value in start.state_dict().items() if not key.startswith("classifier.")}
        compact.load_state_dict(compact.state_dict() | kept)
    else:
        assert isinstance(start, MobileNet)
        compact = CompactNet(start, counted, width)
    if compact.channels["bottleneck"] != width:
        raise RepriError(
            f"head.width: {network.weights} gives {compact.channels['bottleneck']} channels, not {width}: set it so."
        )
    trunk = None if frozen is None else load_frozen(name, device, (frozen,), network.weights)
    architecture = {"backbone": name, "classes": counted, "size": settings.data.size or IMAGENET.size, **stride}
    trainee = CompactTrainee(compact, architecture, trunk, frozen)
    trainee.seen = () if checkpoint is None else tuple(checkpoint.config.get("seen", ()))
    return trainee


def _build_head(settings: TrainSettings, classes: int, device: str) -> HeadTrainee:
    network, wanted = settings.network, settings.head
    layers = network.layers if network.stage is None else (network.stage,)
    trunk = load_frozen(network.name, device, layers, network.weights)
    if network.stage is not None:
        assert isinstance(trunk, NetworkExtractor)
        head: AnyHead = continue_transformer(trunk.network, network.stage)
    elif wanted.name == "discriminant":
        head = Discriminant(trunk.widths, wanted.width)
    else:
        head = Head(trunk.channels, wanted.name, wanted.width, wanted.kernel, wanted.upsample, wanted.dropout)
    base = {
        "name": absolute(network.name),
        "weights": network.weights and absolute(network.weights),
        "size": settings.data.size or trunk.rule.size,
        "layers": layers and list(layers),
        "combine": "concat",
        "identity": trunk.identity,
    }
    return HeadTrainee(trunk, head, classes, base)


def _start(network: NetworkSettings) -> Checkpoint:
    """The weights from which the backbone starts; they must be of that backbone."""
    checkpoint = read_checkpoint(find_weights(str(network.weights)))
    if checkpoint.config["backbone"] != network.backbone:
        raise RepriError(
            f"network.weights: {checkpoint.path} holds a {checkpoint.config['backbone']}, but the network is "
            f"{network.name}."
        )
    return checkpoint


def absolute(name: str) -> str:
    """A file or folder by its whole path, so that it can be loaded from anywhere; any other name as it is."""
    if name in EXTRACTORS:
        return name
    kind, path = ("hub:", name.removeprefix("hub:")) if name.startswith("hub:") else ("", name)
    return f"{kind}{Path(path).expanduser().resolve()}" if Path(path).expanduser().exists() else name
