"""``load_extractor``: from a name and a weights file to features."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import torch
import torch.nn as nn
from torch import Tensor

from repri.features.extractor import IMAGENET, FeatureExtractor
from repri.models.extractors.headed import HeadedExtractor
from repri.models.extractors.network import NetworkExtractor
from repri.runtime.settings import parse, read_yaml

from .extractors.filters import FilterBank
from .extractors.joint import JointExtractor, Part
from .extractors.stitched import StitchedExtractor
from .heads.head import is_head, load_head
from .networks.fast import accelerate
from .networks.hub import HubBackbone, TimmBackbone, pick_layers
from .networks.mobile import STAGES, CompactNet, MobileNet
from .networks.pspnet import PSPNet
from .networks.resnet import DEPTHS, ResNet
from .networks.vgg import VGG16
from .weights.checkpoints import Checkpoint, load_exactly, read_checkpoint
from .weights.embedded import DEFAULTS, embedded_head, embedded_path, embedded_whitening

__all__ = ["NAMES", "build_backbone", "find_weights", "load_checkpoint", "load_extractor"]

LARGE = (*DEPTHS, "vgg16", "vgg16_bn")
BACKBONES = (*LARGE, *STAGES)
WHOLE = (*(f"pspnet-{name}" for name in LARGE), *(f"compact-{name}" for name in STAGES))
NAMES = (*DEFAULTS, "distilled", "filters", *WHOLE, *BACKBONES)


def load_extractor(
    name: str | Path = "default",
    weights: str | Path | None = None,
    *,
    layers: Sequence[str | int] | None = None,
    combine: Literal["concat", "mean"] = "concat",
    head: nn.Module | None = None,
    shifts: int = 1,
    device: str | torch.device = "cpu",
    fast: bool = True,
    compile: bool = False,
    **architecture: Any,
) -> FeatureExtractor:
    """A frozen feature extractor.

    name          ``default``: the small model that comes with the package; ``default-fold0`` … ``3``: the same
                  without the labels of the classes that a fold of PASCAL-5i tests; ``distilled``: without
                  any of PASCAL's; ``pspnet-resnet50``, ``pspnet-resnet101``, ``pspnet-vgg16[_bn]``,
                  ``compact-efficientnet_lite0``, ``compact-mobilenet_v2``; the backbone alone
                  (``resnet50`` …); ``hub:facebook/dinov2-small`` or ``hub:FOLDER`` (or just a folder) through
                  transformers; ``timm:resnet50d``; ``filters``, which needs no weights; a
                  ``.safetensors`` file that ``repri train`` wrote; or a ``.yaml`` file that names several of
                  these under ``parts``, each with its ``weights``, ``layers``, ``combine`` and ``shifts``, whose
                  features are taken together
    weights       a file of any kind that ``repri.models.checkpoints`` knows, or the name of one that
                  ``repri weights get`` has fetched; None leaves the network untrained, with a warning
    layers        which to take, by name or index: ``layer1`` … ``layer4``, ``bottleneck`` (default of
                  ``pspnet-…`` and ``compact-…``), a hub model's ``stage1`` …
    combine       several layers concatenated or averaged
    head          a module on top, with ``out_channels``
    shifts        look at so many shifted copies of a picture along each side: that many times finer features, for
                  the square of it in time
    fast          run an equivalent network: norms folded, pyramid factored, channels last
    compile       also ``torch.compile`` it: slow to start, worth it for thousands of images
    architecture  ``stem`` ("deep", "plain"; told by the weights), ``stride_in`` ("3x3", "1x1"), ``bn_eps``
    """
    if not isinstance(name, str | Path):
        raise ValueError(f"an extractor has a name, such as 'default' or a file's, got {type(name).__name__}")
    name = str(name)
    same: dict[str, Any] = {"layers": layers, "combine": combine, "device": device, "fast": fast, "compile": compile}
    if shifts != 1:
        return StitchedExtractor(load_extractor(name, weights, head=head, **same, **architecture), shifts)
    if head is not None:
        return HeadedExtractor(load_extractor(name, weights, **same, **architecture), head)
    options: dict[str, Any] = {"combine": combine, "device": device}
    if name == "distilled":
        _refuse(name, weights=weights, **architecture)
        embedded = _load_trained(embedded_path(), None, layers, device=device, fast=fast, compile=compile)
        embedded.name = name
        embedded.whitening = embedded_whitening() if layers is None else None
        return embedded
    if name in DEFAULTS:
        _refuse(name, weights=weights, layers=layers, **architecture)
        head, classes = embedded_head(name)
        under = load_extractor("distilled", device=device, fast=fast, compile=compile)
        extractor = HeadedExtractor(under, head, rounds=True)
        extractor.name, extractor.seen = name, classes
        return extractor
    if name.endswith(".safetensors"):
        return _load_trained(Path(name).expanduser(), weights, layers, device=device, fast=fast, compile=compile)
    if name.endswith((".yaml", ".yml")):
        _refuse(name, weights=weights, layers=layers, combine=None if combine == "concat" else combine, **architecture)
        return _load_joint(Path(name).expanduser(), device=device, fast=fast, compile=compile)
    if name == "filters":
        elsewhere = None if str(device) == "cpu" else device
        _refuse(name, weights=weights, layers=layers, device=elsewhere, **architecture)
        return FilterBank()
    if name.startswith("timm:"):
        _refuse(name, weights=weights, **architecture)
        network: Any = TimmBackbone(name.removeprefix("timm:"), (-1,) if layers is None else layers)
        extractor = NetworkExtractor(name, network, network.layers, network.rule, **options)
    elif name.startswith("hub:") or (name not in NAMES and Path(name).expanduser().is_dir()):
        _refuse(name, weights=weights, **architecture)
        network = HubBackbone(name.removeprefix("hub:"), (-1,) if layers is None else layers)
        options["description"] = network.description
        extractor = NetworkExtractor(name, network, network.layers, network.rule, **options)
        if fast:
            extractor.run = network.shortened()
    elif name in NAMES:
        known = ["layer1", "layer2", "layer3", "layer4", *(["bottleneck"] if name in WHOLE else [])]
        taken = pick_layers((-1,) if layers is None else layers, known, name)
        network, told = _build(name, weights, architecture, taken)
        if isinstance(network, ResNet | VGG16 | MobileNet):
            network.last = taken[-1]
        extractor = NetworkExtractor(
            name, network, taken, IMAGENET._replace(size=told.get("size", IMAGENET.size)), **options
        )
        extractor.seen = tuple(told.get("seen", ()))
        if fast:
            extractor.run = accelerate(extractor.network)
    else:
        raise ValueError(
            f"unknown extractor {name!r}; known: {', '.join(NAMES)}, hub:NAME, timm:NAME or a model folder"
        )
    if compile:
        extractor.run = torch.compile(extractor.run)  # ty: ignore[invalid-assignment]
    return extractor


def _load_trained(
    path: Path, weights: str | Path | None, layers: Sequence[str | int] | None, **options: Any
) -> FeatureExtractor:
    """A whole network, or a head on the extractor that its file names; ``weights`` says where that one's are now."""
    if not is_head(path):
        _refuse(str(path), weights=weights)
        return load_extractor(whole_name(read_checkpoint(path)), path, layers=layers, **options)
    _refuse(str(path), layers=layers)
    head, base = load_head(path)
    if base["name"] == "filters":
        options = {}
    under = load_extractor(
        base["name"], weights or base["weights"], layers=base["layers"], combine=base["combine"], **options
    )
    if under.identity != base["identity"]:
        raise ValueError(f"{path} was trained on another {base['name']} than the one that is here: its weights differ")
    extractor = HeadedExtractor(under, head, base["size"], rounds=True)
    extractor.seen = tuple(base.get("seen", under.seen))
    return extractor


def _load_joint(path: Path, **options: Any) -> JointExtractor:
    """Several extractors, as a YAML file describes them."""
    found = read_yaml(path)
    listed = found.get("parts")
    if set(found) != {"parts"} or not isinstance(listed, list) or not all(isinstance(part, dict) for part in listed):
        raise ValueError(f"{path}: expected one key, parts, with a list of extractors such as {{name: resnet50}}")
    parts = [parse(Part, part, f"{path}, part {number}") for number, part in enumerate(listed, 1)]
    return JointExtractor(
        [
            load_extractor(
                *(part.name, part.weights),
                layers=part.layers,
                combine=part.combine,
                shifts=part.shifts,
                **({} if part.name == "filters" else options),
            )
            for part in parts
        ]
    )


def whole_name(checkpoint: Checkpoint) -> str:
    """The name of the network that has a file's backbone and a head."""
    backbone = checkpoint.config["backbone"]
    return f"{'compact' if backbone in STAGES else 'pspnet'}-{backbone}"


def build_backbone(name: str, **architecture: Any) -> ResNet | VGG16 | MobileNet:
    """An untrained backbone by name."""
    if name not in BACKBONES:
        raise ValueError(f"unknown backbone {name!r}; known: {', '.join(BACKBONES)}")
    allowed = {"stem", "stride_in", "bn_eps", "dilated", "classes"} if name in DEPTHS else {"bn_eps", "dilated"}
    for option in architecture:
        if option not in allowed:
            raise ValueError(f"{name} has no option {option!r}; known: {', '.join(sorted(allowed))}")
    if name in DEPTHS:
        return ResNet(name, **architecture)
    if name in STAGES:
        return MobileNet(name, **architecture)
    return VGG16(batch_norm=name == "vgg16_bn", **architecture)


def load_checkpoint(
    checkpoint: Checkpoint, whole: bool | None = None, **architecture: Any
) -> PSPNet | CompactNet | ResNet | VGG16 | MobileNet:
    """The network that a file describes, with its weights, every key accounted for: a whole one if it holds
    that, unless ``whole`` is False, else the backbone. An ImageNet class head is left out unless
    ``classes`` asks for it."""
    told = {k: v for k, v in checkpoint.config.items() if k not in ("backbone", "classes", "size", "seen")}
    for key, value in architecture.items():
        if key in told and told[key] != value:
            raise ValueError(f"{checkpoint.path} has {key}={told[key]!r}, not {value!r}")
    backbone = build_backbone(checkpoint.config["backbone"], **(told | architecture))
    with_head = architecture.get("classes") is not None
    state = {k: v for k, v in checkpoint.state.items() if with_head or not k.startswith("backbone.fc.")}
    if checkpoint.complete and whole is not False:
        network = _with_head(backbone, state, checkpoint.config.get("classes"))
        load_exactly(network, state, str(checkpoint.path))
        return network
    if checkpoint.complete:
        state = {k: v for k, v in state.items() if k.startswith("backbone.")}
    load_exactly(backbone, {k.removeprefix("backbone."): v for k, v in state.items()}, str(checkpoint.path))
    return backbone


def _with_head(
    backbone: ResNet | VGG16 | MobileNet, state: dict[str, Tensor], classes: int | None
) -> PSPNet | CompactNet:
    """The whole network, as wide as the tensors in a file say."""
    compact = isinstance(backbone, MobileNet)
    key, usual = ("bottleneck.weight", 384) if compact else ("bottleneck.0.weight", 512)
    width = len(state[key]) if key in state else usual
    return CompactNet(backbone, classes, width) if compact else PSPNet(backbone, classes, width)


def _build(name: str, weights: str | Path | None, architecture: dict[str, Any], layers: tuple[str, ...]):
    """The network of a name, or its backbone if no more is needed, trained if there are weights; and what their file
    tells."""
    backbone_name, whole = name.removeprefix("pspnet-").removeprefix("compact-"), "bottleneck" in layers
    if name.startswith("compact-"):
        architecture = {"dilated": False} | architecture
    if weights is None:
        warnings.warn(f"{name} without weights is untrained: its features mean nothing yet", stacklevel=3)
        backbone = build_backbone(backbone_name, **architecture)
        return _with_head(backbone, {}, None) if whole else backbone, {}
    checkpoint = read_checkpoint(find_weights(weights))
    if checkpoint.config["backbone"] != backbone_name:
        raise ValueError(f"{checkpoint.path} holds a {checkpoint.config['backbone']}, not the backbone of {name}")
    if whole and not checkpoint.complete:
        raise ValueError(
            f"{checkpoint.path} holds the backbone only, so the bottleneck of {name} would be untrained: "
            f"take its layers with layers=('layer4',), or train the head first"
        )
    return load_checkpoint(checkpoint, whole, **architecture), checkpoint.config


def find_weights(weights: str | Path) -> Path:
    """A file, or the name of weights in the cache."""
    from .weights.known import KNOWN, imported_path

    path = Path(weights).expanduser()
    if isinstance(weights, str) and not path.is_file():
        imported = imported_path(weights)
        if imported is not None:
            return imported
        if weights in KNOWN:
            raise ValueError(f"the weights {weights!r} are not here yet: repri weights get {weights}")
    if not path.is_file():
        raise ValueError(f"no weights file at {path}, and no known weights of that name: repri weights list")
    return path


def _refuse(name: str, **given: Any) -> None:
    for option, value in given.items():
        if value is not None:
            raise ValueError(f"{name} takes no {option!r}")
