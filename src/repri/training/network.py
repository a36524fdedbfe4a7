"""What is trained: a PSPNet or transformer, whole or from a layer on, a compact network, or a head on a frozen one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from repri.features.extractor import IMAGENET, FeatureExtractor, InputRule
from repri.features.view import on_corners
from repri.models.extractors.network import NetworkExtractor
from repri.models.heads.blocks import Blocks, continue_transformer
from repri.models.heads.convolution import Head
from repri.models.heads.discriminant import Discriminant
from repri.models.heads.files import AnyHead, save_head
from repri.models.load import EXTRACTORS, load_extractor
from repri.models.networks.build import BACKBONES, WHOLE, build_backbone
from repri.models.networks.mobile import CompactNet, MobileNet
from repri.models.networks.pspnet import PSPNet
from repri.models.networks.resnet import ResNet
from repri.models.networks.vgg import VGG16
from repri.models.weights.checkpoints import Checkpoint, load_checkpoint, read_checkpoint, save_checkpoint
from repri.models.weights.known import find_weights
from repri.runtime.settings import nearest

from .config import TrainConfig

__all__ = ["CompactTrainee", "HeadTrainee", "PSPTrainee", "Trainee", "build_trainee", "square", "upsampled"]


class Trainee(nn.Module, ABC):
    """Images, or features of the frozen ``trunk`` → class logits at the features' size."""

    trunk: FeatureExtractor | None
    """What is frozen, if anything is: its features are the input."""
    rule: InputRule
    stride: int
    seen: tuple[str, ...] = ()
    """Classes whose labels are looked at, which the file will tell."""
    still: Sequence[nn.Module] = ()
    """Frozen parts, whose norms keep their means in training too."""

    def train(self, mode: bool = True) -> Trainee:
        super().train(mode)
        for module in self.still:
            module.eval()
        return self

    def aligned(self, side: int) -> bool:
        """Whether outer cells lie on the outer pixels of a square."""
        cells = -(-side // self.stride)
        return on_corners((cells, cells), (side, side), self.stride)

    @abstractmethod
    def features(self, x: Tensor) -> Tensor:
        """[B, C, h, w]: what few-shot inference will see."""

    @property
    @abstractmethod
    def last(self) -> nn.Conv2d | None:
        """The classifier: features → [B, classes, h, w]; None where labels are not looked at."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        """Features and class logits."""
        features = self.features(x)
        return features, None if self.last is None else self.last(features)

    def segment(self, x: Tensor, side: int) -> Tensor:
        """[B, classes, side, side]."""
        _, logits = self(x)
        return upsampled(logits.float(), (side, side), self.aligned(side))

    @abstractmethod
    def export(self, path: Path) -> None:
        """Write the file that ``load_extractor`` reads."""


class PSPTrainee(Trainee):
    """A PSPNet; ``frozen``: the layer up to which it is, or None."""

    def __init__(
        self,
        network: PSPNet,
        architecture: dict[str, Any],
        trunk: FeatureExtractor | None,
        frozen: str | None,
        recompute: bool,
    ):
        super().__init__()
        self.network, self.architecture, self.recompute = network, architecture, recompute
        self.trunk, self.rule, self.stride = trunk, IMAGENET, network.strides["bottleneck"]
        names = ["layer0", "layer1", "layer2", "layer3", "layer4"]
        self.start = 0 if frozen is None else names.index(frozen) + 1
        for name in names[: self.start]:
            network.backbone.get_submodule(name).requires_grad_(False)
        self.active = names[self.start :]
        self.still = [network.backbone.get_submodule(name) for name in names[: self.start]]

    def features(self, x: Tensor) -> Tensor:
        for name in self.active:
            layer = self.network.backbone.get_submodule(name)
            x = checkpoint(layer, x, use_reentrant=False) if self.recompute and self.training else layer(x)
        return self.network.factored_bottleneck(x)

    @property
    def last(self) -> nn.Conv2d:
        assert self.network.classifier is not None
        return self.network.classifier

    def export(self, path: Path) -> None:
        save_checkpoint(path, self.network.state_dict(), self.architecture | {"seen": self.seen})


class CompactTrainee(Trainee):
    """A small network; ``trunk``: what of it is frozen, up to the layer ``frozen``."""

    def __init__(
        self, network: CompactNet, architecture: dict[str, Any], trunk: FeatureExtractor | None, frozen: str | None
    ):
        super().__init__()
        self.network, self.architecture, self.trunk, self.frozen = network, architecture, trunk, frozen
        self.rule, self.stride = IMAGENET, network.strides["bottleneck"]
        names = ["layer0", *network.backbone.channels]
        start = 0 if frozen is None else names.index(frozen) + 1
        self.active = names[start:]
        self.still = [network.backbone.get_submodule(name) for name in names[:start]]
        for module in self.still:
            module.requires_grad_(False)

    def features(self, x: Tensor) -> Tensor:
        x = x.contiguous(memory_format=torch.channels_last)
        outputs = {} if self.frozen is None else {self.frozen: x}
        for name in self.active:
            outputs[name] = x = self.network.backbone.get_submodule(name)(x)
        return self.network.head(outputs["layer3"], outputs["layer4"])

    @property
    def last(self) -> nn.Conv2d | None:
        return self.network.classifier

    def export(self, path: Path) -> None:
        save_checkpoint(path, self.network.state_dict(), self.architecture | {"seen": self.seen})


class HeadTrainee(Trainee):
    """A head, or the last blocks, and a classifier on a frozen extractor."""

    def __init__(self, trunk: FeatureExtractor, head: AnyHead, classes: int, base: dict[str, Any]):
        super().__init__()
        self.trunk, self.rule, self.stride = trunk, trunk.rule, trunk.stride // head.upsample
        self.head, self.base = head, base
        self.classifier = nn.Conv2d(head.out_channels, classes, 1)

    def aligned(self, side: int) -> bool:
        """Upsampled cells divide the picture evenly, as they will in the extractor."""
        return self.head.upsample == 1 and super().aligned(side)

    def features(self, x: Tensor) -> Tensor:
        return self.head(x)

    @property
    def last(self) -> nn.Conv2d:
        return self.classifier

    def export(self, path: Path) -> None:
        classifier = {f"classifier.{key}": value for key, value in self.classifier.state_dict().items()}
        save_head(path, self.head, self.base | {"seen": self.seen}, classifier)


def build_trainee(config: TrainConfig, classes: int, device: str = "cpu") -> Trainee:
    """``classes``: of the base training, background included. The random start is the seed's, set before."""
    whole = config.network.startswith(("pspnet-", "compact-"))
    if whole and config.network not in WHOLE:
        raise ValueError(
            f"no network named {config.network!r}{nearest(config.network, WHOLE)} Known: {', '.join(WHOLE)}"
        )
    if config.head == "discriminant" and (whole or config.freeze != "backbone" or config.upsample != 1):
        raise ValueError(
            "head: a discriminant sits on a frozen extractor (hub:…, distilled, resnet50 …, or a trained one): "
            "set freeze: backbone, and no upsample"
        )
    if config.network.startswith("pspnet-"):
        return _build_pspnet(config, classes, device)
    if config.network.startswith("compact-"):
        return _build_compact(config, classes, device)
    if config.freeze == "none":
        raise ValueError(
            f"{config.network} cannot be trained itself: set freeze: backbone to train a head on it, or take a pspnet-…"
        )
    if config.network in BACKBONES and config.weights is None:
        raise ValueError(f"{config.network} without weights is untrained, and freeze keeps it so: give weights")
    place: dict[str, Any] = {} if config.network == "filters" else {"device": device}
    stage = None if config.freeze == "backbone" else config.freeze
    if stage is not None:
        _check_stage(config, stage)
    layers = config.layers if stage is None else (stage,)
    trunk = load_extractor(config.network, config.weights, layers=layers, **place)
    if stage is not None:
        assert isinstance(trunk, NetworkExtractor)
        head: AnyHead = continue_transformer(trunk.network, stage)
    elif config.head == "discriminant":
        head = Discriminant(trunk.widths, config.width)
    else:
        head = Head(trunk.channels, config.head, config.width, config.kernel, config.upsample, config.dropout)
    if config.recompute or (config.thin > 1 and not isinstance(head, Blocks | Discriminant)):
        raise ValueError("recompute is for a pspnet-…, and thin for the blocks of a transformer or a discriminant")
    base = {
        "name": _absolute(config.network),
        "weights": config.weights and _absolute(config.weights),
        "size": config.size or trunk.rule.size,
        "layers": layers and list(layers),
        "combine": "concat",
        "identity": trunk.identity,
    }
    return HeadTrainee(trunk, head, classes, base)


def _check_stage(config: TrainConfig, stage: str) -> None:
    """Only transformers of the hub can be frozen up to a stage."""
    if not config.network.startswith("hub:") and not Path(config.network).expanduser().is_dir():
        raise ValueError(f"freeze: {config.network} is frozen as a whole, {stage!r} is not known; use 'backbone'")
    if config.layers is not None or config.upsample != 1:
        raise ValueError(f"freeze: {stage} trains the blocks after it, and needs no layers and no upsample")


def _absolute(name: str) -> str:
    """A file or folder by its whole path, so that it is found from anywhere; anything else as it is."""
    if name in EXTRACTORS:
        return name
    kind, path = ("hub:", name.removeprefix("hub:")) if name.startswith("hub:") else ("", name)
    return f"{kind}{Path(path).expanduser().resolve()}" if Path(path).expanduser().exists() else name


def _build_pspnet(config: TrainConfig, classes: int, device: str) -> PSPTrainee:
    if config.thin > 1:
        raise ValueError(f"thin is for the blocks of a transformer, not for {config.network}")
    name = config.network.removeprefix("pspnet-")
    frozen = {"none": None, "backbone": "layer4"}.get(config.freeze, config.freeze)
    known = ("none", "backbone", "layer0", "layer1", "layer2", "layer3", "layer4")
    if config.freeze not in known or config.freeze == "layer0":
        raise ValueError(
            f"freeze: no layer named {config.freeze!r}; known: {', '.join(k for k in known if k != 'layer0')}"
        )
    if frozen is not None and config.weights is None:
        raise ValueError(f"freeze: {config.freeze} keeps an untrained backbone as it is: give weights")
    if config.layers is not None or config.upsample != 1:
        raise ValueError("layers and upsample are for a head on a frozen extractor: a pspnet-… has its own")
    architecture: dict[str, Any] = {"backbone": name}
    seen: Sequence[str] = ()
    if config.weights is None:
        backbone = build_backbone(name)
    else:
        found = _start(config, name)
        seen = found.config.get("seen", ())
        backbone = load_checkpoint(found, whole=False)
        architecture = {key: value for key, value in found.config.items() if key not in ("classes", "size", "seen")}
    assert isinstance(backbone, ResNet | VGG16)
    network = PSPNet(backbone, classes, config.width, config.dropout)
    trunk = None
    if frozen is not None:
        trunk = load_extractor(name, config.weights, layers=(frozen,), device=device)
    architecture |= {"classes": classes, "size": config.size or IMAGENET.size}
    trainee = PSPTrainee(network, architecture, trunk, frozen, config.recompute)
    trainee.seen = tuple(seen)
    return trainee


def _build_compact(config: TrainConfig, classes: int, device: str) -> CompactTrainee:
    name = config.network.removeprefix("compact-")
    if config.layers is not None or config.upsample != 1 or config.recompute or config.thin > 1:
        raise ValueError(f"{config.network} takes no layers, upsample, recompute or thin")
    frozen = None if config.freeze == "none" else config.freeze
    if frozen not in (None, "layer1", "layer2", "layer3"):
        raise ValueError(f"freeze: no layer named {frozen!r} to freeze up to; known: none, layer1, layer2, layer3")
    if frozen is not None and config.weights is None:
        raise ValueError(f"freeze: {frozen} keeps an untrained backbone as it is: give weights")
    counted = classes if config.label_weight > 0 else None
    stride: dict[str, Any] = {"dilated": False}
    found = None if config.weights is None else _start(config, name)
    start = build_backbone(name, **stride) if found is None else load_checkpoint(found, **stride)
    if isinstance(start, CompactNet):  # to go on from, with a classifier of its own
        network = CompactNet(start.backbone, counted, start.channels["bottleneck"])
        kept = {key: value for key, value in start.state_dict().items() if not key.startswith("classifier.")}
        network.load_state_dict(network.state_dict() | kept)
    else:
        assert isinstance(start, MobileNet)
        network = CompactNet(start, counted, config.width)
    if network.channels["bottleneck"] != config.width:
        raise ValueError(f"width: {config.weights} gives {network.channels['bottleneck']} channels, not {config.width}")
    trunk = None if frozen is None else load_extractor(name, config.weights, layers=(frozen,), device=device)
    architecture = {"backbone": name, "classes": counted, "size": config.size or IMAGENET.size, **stride}
    trainee = CompactTrainee(network, architecture, trunk, frozen)
    trainee.seen = () if found is None else tuple(found.config.get("seen", ()))
    return trainee


def _start(config: TrainConfig, name: str) -> Checkpoint:
    """The weights from which a network of that backbone starts."""
    found = read_checkpoint(find_weights(str(config.weights)))
    if found.config["backbone"] != name:
        raise ValueError(f"{found.path} holds a {found.config['backbone']}, and the network is {config.network}")
    return found


def square(labels: Tensor) -> tuple[int, int]:
    """Height and width of labels [B, H, W]."""
    return labels.shape[1], labels.shape[2]


def upsampled(logits: Tensor, size: tuple[int, int], aligned: bool) -> Tensor:
    """[B, classes, h, w] → [B, classes, H, W]."""
    return F.interpolate(logits, size=size, mode="bilinear", align_corners=aligned)
