"""Builders of our own extractors, by name and by scheme."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch

from repri.features.extractor import IMAGENET, FeatureExtractor
from repri.runtime.errors import RepriError

from .extractors.filters import FilterBank
from .extractors.headed import HeadedExtractor
from .extractors.lowlevel import LowLevel
from .extractors.network import NetworkExtractor
from .networks.build import BACKBONES, WHOLE, add_head, backbone_of, build_backbone, whole_name
from .networks.fast import accelerate
from .networks.hub import HubBackbone
from .networks.layered import Layered, pick_layers
from .networks.mobile import CompactNet
from .networks.packed import pack
from .networks.timm import TimmBackbone
from .networks.twin import TwinNet
from .registry import EXTRACTORS, register_extractor
from .weights.checkpoints import Checkpoint, load_checkpoint, read_checkpoint
from .weights.embedded import (
    DEFAULTS,
    embedded_head,
    embedded_path,
    embedded_twin,
    embedded_whitening,
)
from .weights.known import find_weights

__all__ = [
    "build_default",
    "build_distilled",
    "build_filters",
    "build_hub",
    "build_lowlevel",
    "build_network",
    "build_timm",
    "build_trained",
    "build_twin",
]

Layers = Sequence[str | int] | None
Combine = Literal["concat", "mean"]
Device = str | torch.device


def build_default(name: str, device: Device = "cpu", fast: bool = True, compile: bool = False) -> FeatureExtractor:
    """Build the embedded model with one of its heads; ``name`` is one of ``DEFAULTS``."""
    head, classes = embedded_head(name)
    under = build_twin(device=device, fast=fast, compile=compile)
    return HeadedExtractor(under, head, rounds=True, name=name, seen=classes)


@register_extractor(
    "twin", "the embedded model without a head: distilled, and upper layers of ImageNet's classification"
)
def build_twin(
    layers: Layers = TwinNet.wanted,
    combine: Combine = "concat",
    device: Device = "cpu",
    fast: bool = True,
    compile: bool = False,
) -> FeatureExtractor:
    """Build the network of the embedded model with its twin."""
    checkpoint = read_checkpoint(embedded_path())
    compact = load_checkpoint(checkpoint)
    assert isinstance(compact, CompactNet)
    network = embedded_twin(compact)
    network.wanted = pick_layers(layers, TwinNet.wanted, "twin")
    rule = IMAGENET._replace(size=checkpoint.config["size"])
    faster = _executed(accelerate, fast, compile)
    extractor = NetworkExtractor("twin", network, network.wanted, rule, combine, device, faster)
    whitening = None if combine == "mean" else embedded_whitening(extractor.layers, extractor.widths)
    return extractor.known_as("twin", whitening)


@register_extractor("distilled", "the compact network of the embedded model, made without labels of PASCAL")
def build_distilled(
    layers: Layers = None, combine: Combine = "concat", device: Device = "cpu", fast: bool = True, compile: bool = False
) -> FeatureExtractor:
    """Build the compact network of the embedded model."""
    return build_trained(embedded_path(), layers, combine, device, fast, compile).known_as("distilled", None)


@register_extractor("filters", "colour and texture, without weights")
def build_filters() -> FeatureExtractor:
    """Build the extractor that needs no weights."""
    return FilterBank()


@register_extractor("lowlevel", "colour, edges and texture at several scales, without weights")
def build_lowlevel(stride: int = 2) -> FeatureExtractor:
    """Build the extractor of the pixels' own features, which needs no weights."""
    return LowLevel(stride)


def build_network(
    name: str,
    weights: str | Path | None = None,
    layers: Layers = None,
    combine: Combine = "concat",
    device: Device = "cpu",
    fast: bool = True,
    compile: bool = False,
    **architecture: Any,
) -> NetworkExtractor:
    """Build one of our own networks; ``architecture`` holds the options of its backbone."""
    checkpoint = None if weights is None else read_checkpoint(find_weights(weights))
    prepare = partial(NetworkExtractor, combine=combine, device=device, faster=_executed(accelerate, fast, compile))
    return _from_checkpoint(name, checkpoint, layers, architecture, prepare)


def build_trained(
    path: Path,
    layers: Layers = None,
    combine: Combine = "concat",
    device: Device = "cpu",
    fast: bool = True,
    compile: bool = False,
) -> NetworkExtractor:
    """Build the whole network that a file describes."""
    checkpoint = read_checkpoint(path)
    prepare = partial(NetworkExtractor, combine=combine, device=device, faster=_executed(accelerate, fast, compile))
    return _from_checkpoint(whole_name(checkpoint.config["backbone"]), checkpoint, layers, {}, prepare)


@register_extractor("hub:", "a backbone of transformers, by its name on the hub or its folder")
def build_hub(
    source: str,
    layers: Layers = None,
    combine: Combine = "concat",
    device: Device = "cpu",
    fast: bool = True,
    compile: bool = False,
    name: str | None = None,
) -> NetworkExtractor:
    """Build a backbone of transformers; ``name`` is the extractor's name if it is not ``hub:SOURCE``."""
    network = HubBackbone(source, layers)
    faster = _executed(HubBackbone.shortened, fast, compile)
    return NetworkExtractor(name or f"hub:{source}", network, network.layers, network.rule, combine, device, faster)


@register_extractor("timm:", "a backbone of timm")
def build_timm(
    source: str, layers: Layers = None, combine: Combine = "concat", device: Device = "cpu", compile: bool = False
) -> NetworkExtractor:
    """Build a backbone of timm."""
    network = TimmBackbone(source, layers)
    faster = _executed(accelerate, False, compile)
    return NetworkExtractor(f"timm:{source}", network, network.layers, network.rule, combine, device, faster)


def _executed(equivalent: Callable[[Any], Any], fast: bool, compile: bool) -> Callable[[Any], Any]:
    """Function that makes the module to execute from a network."""

    def make(network: Any) -> Any:
        run = equivalent(network) if fast else network
        if compile:
            return torch.compile(run)
        return pack(run) if fast else run

    return make


def _from_checkpoint(
    name: str,
    checkpoint: Checkpoint | None,
    layers: Layers,
    architecture: dict[str, Any],
    prepare: Callable[..., NetworkExtractor],
) -> NetworkExtractor:
    """Build a network of ours, or its backbone if the layers need no more; untrained if there is no checkpoint."""
    known = ["layer1", "layer2", "layer3", "layer4", *(["bottleneck"] if name in WHOLE else [])]
    taken = pick_layers(layers, known, name)
    whole = "bottleneck" in taken
    if name.startswith("compact-"):
        architecture = {"dilated": False} | architecture
    if checkpoint is None:
        # The stack above: build_network, _call, load_extractor, and the code that is to blame.
        warnings.warn(f"{name} without weights is untrained: its features mean nothing yet.", stacklevel=5)
        network: Any = build_backbone(backbone_of(name), **architecture)
        network = add_head(network) if whole else network
    else:
        _check_fits(checkpoint, name, whole)
        network = load_checkpoint(checkpoint, whole, **architecture)
    if isinstance(network, Layered):
        network.last = taken[-1]
    config = {} if checkpoint is None else checkpoint.config
    rule = IMAGENET._replace(size=config.get("size", IMAGENET.size))
    return prepare(name, network, taken, rule, seen=config.get("seen", ()))


def _check_fits(checkpoint: Checkpoint, name: str, whole: bool) -> None:
    """Refuse a file that holds another network, or less than is needed."""
    if checkpoint.config["backbone"] != backbone_of(name):
        raise RepriError(f"{checkpoint.path} holds a {checkpoint.config['backbone']}, not the backbone of {name}.")
    if whole and not checkpoint.complete:
        raise RepriError(
            f"{checkpoint.path} holds the backbone only, so the bottleneck of {name} would be untrained: "
            "take its layers with layers=('layer4',), or train the head first."
        )


for _name in DEFAULTS:
    _labels = "PASCAL" if _name == "default" else f"the classes that {_name[-5:]} of PASCAL-5i does not test"
    EXTRACTORS.register(
        _name, partial(build_default, _name), f"the embedded model with a head made with labels of {_labels}"
    )
for _name in (*WHOLE, *BACKBONES):
    _kind = "a whole network of ours" if _name in WHOLE else "a backbone alone"
    EXTRACTORS.register(_name, partial(build_network, _name), f"{_kind}; give weights")
