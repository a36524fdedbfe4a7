"""Weights files of other projects: how each kind is recognised, and its keys under our names.

Our keys are those of :class:`~repri.models.networks.pspnet.PSPNet` and
:class:`~repri.models.networks.mobile.CompactNet`: ``backbone.layer0…``, ``bottleneck.…``, ``classifier.…``; an ImageNet
classifier of a ResNet is kept as ``backbone.fc``. A key that has no place here is kept as it is, so that
:func:`~repri.runtime.tensors.load_exactly` names it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from repri.features.extractor import IMAGENET
from repri.models.networks.mobile import STAGES
from repri.runtime.errors import RepriError

__all__ = ["KINDS", "Kind"]

State = dict[str, Tensor]


class Kind(NamedTuple):
    """One layout of weights files."""

    name: str
    """authors, semseg, torchvision or lite."""
    recognise: Callable[[Mapping[str, Tensor]], bool]
    """Whether a file with these keys is of this kind."""
    convert: Callable[[State], tuple[State, dict[str, Any]]]
    """Foreign tensors → tensors by our keys, and the architecture: ``backbone``, and where it is known ``stem``,
    ``dilated`` and ``classes``."""


def _from_authors(raw: State) -> tuple[State, dict[str, Any]]:
    """Convert a trained PSPNet of the RePRI code: ``layer0`` … ``layer4``, ``ppm``, ``bottleneck``, ``classifier``."""
    state = {(f"backbone.{key}" if key.startswith("layer") else key): value for key, value in raw.items()}
    config = _describe_resnet(state) if "backbone.layer1.0.conv1.weight" in state else _describe_vgg(state)
    if config["backbone"].startswith("vgg"):
        config["dilated"] = False  # their VGGs keep all four poolings
    if "classifier.weight" in state:
        config["classes"] = len(state["classifier.weight"])
    return state, config


def _from_resnet(raw: State) -> tuple[State, dict[str, Any]]:
    """Convert an ImageNet ResNet: ``conv1``, ``bn1`` …, ``layer1`` …, ``fc``.

    ``layer0`` here is a convolution, a norm and a ReLU, three times in the deep stem.
    """
    state = {}
    for key, value in raw.items():
        first, _, rest = key.partition(".")
        if first.startswith(("conv", "bn")) and first[-1] in "123":
            place = 3 * (int(first[-1]) - 1) + (1 if first.startswith("bn") else 0)
            key = f"layer0.{place}.{rest}"
        state[f"backbone.{key}"] = value
    return state, _describe_resnet(state)


def _from_vgg(raw: State) -> tuple[State, dict[str, Any]]:
    """Convert an ImageNet VGG-16: ``features.N`` → ``layerG.n``; its fully connected classifier is left out."""
    batch_norm = "features.1.running_mean" in raw
    per_convolution = 3 if batch_norm else 2
    starts = [0]
    for convolutions in (2, 2, 3, 3, 3):
        starts.append(starts[-1] + convolutions * per_convolution + 1)  # and the pooling
    state = {}
    for key, value in raw.items():
        part, _, rest = key.partition(".")
        if part == "classifier":
            continue
        number, _, leaf = rest.partition(".")
        if part != "features" or not number.isdigit() or int(number) >= starts[-1]:
            state[key] = value
            continue
        group = max(g for g in range(5) if starts[g] <= int(number))
        state[f"backbone.layer{group}.{int(number) - starts[group]}.{leaf}"] = value
    return state, _describe_vgg(state)


def _from_mobilenet(raw: State) -> tuple[State, dict[str, Any]]:
    """Convert an ImageNet MobileNetV2: ``features.N.conv.M`` → ``layerG.n.expand`` …

    The layers after the last block serve to classify ImageNet and are left out.
    """
    state = {}
    for key, value in raw.items():
        part, _, rest = key.partition(".")
        number, _, leaf = rest.partition(".")
        if part == "classifier" or (part, number) == ("features", "18"):
            continue
        if part != "features" or not number.isdigit():
            state[key] = value
        elif number == "0":
            state[f"backbone.layer0.0.{leaf}"] = value
        else:
            steps = ("spread", "project") if number == "1" else ("expand", "spread", "project")
            place, *inner = leaf.removeprefix("conv.").split(".")
            if int(place) >= len(steps):  # the norm of the last convolution stands beside it, other norms within
                place, inner = str(len(steps) - 1), ["1", *inner]
            elif int(place) == len(steps) - 1:
                inner = ["0", *inner]
            block = _mobile_block("mobilenet_v2", int(number) - 1)
            state[".".join([block, steps[int(place)], *inner])] = value
    return state, {"backbone": "mobilenet_v2"}


_LITE_NAMES = {
    "expand_conv": "expand.0",
    "bn0": "expand.1",
    "depthwise_conv": "spread.0",
    "bn1": "spread.1",
    "project_conv": "project.0",
    "bn2": "project.1",
}


def _from_lite(raw: State) -> tuple[State, dict[str, Any]]:
    """Convert an ImageNet EfficientNet-Lite0: ``_blocks.N._expand_conv`` → ``layerG.n.expand.0`` …

    The published network takes (x − 127) / 128 of bytes x, and here images are normalised alike for all networks. The
    first convolution is linear, so the difference goes into its weights and into the mean of the norm after it.
    """
    state = {}
    for key, value in raw.items():
        part, _, rest = key.partition(".")
        if part in ("_conv_head", "_bn1", "_fc"):
            continue
        number, _, leaf = rest.partition(".")
        name, _, tensor = leaf.removeprefix("_").partition(".")
        if part in ("_conv_stem", "_bn0"):
            state[f"backbone.layer0.0.{0 if part == '_conv_stem' else 1}.{rest}"] = value
        elif part == "_blocks" and number.isdigit() and name in _LITE_NAMES:
            state[f"{_mobile_block('efficientnet_lite0', int(number))}.{_LITE_NAMES[name]}.{tensor}"] = value
        else:
            state[key] = value
    weight, mean = state["backbone.layer0.0.0.weight"], state["backbone.layer0.0.1.running_mean"]
    usual_mean, usual_std = (torch.tensor(values).view(1, 3, 1, 1) for values in (IMAGENET.mean, IMAGENET.std))
    shift = (weight * (usual_mean - 127 / 255) * 255 / 128).sum((1, 2, 3))
    state["backbone.layer0.0.0.weight"] = weight * usual_std * 255 / 128
    state["backbone.layer0.0.1.running_mean"] = mean - shift
    return state, {"backbone": "efficientnet_lite0"}


def _mobile_block(name: str, number: int) -> str:
    """Our name of the n-th block of a MobileNet; ``layer0`` starts with the stem."""
    for i, stages in enumerate(STAGES[name]):
        count = sum(stage[2] for stage in stages)
        if number < count:
            return f"backbone.layer{i}.{number + (i == 0)}"
        number -= count
    return f"backbone.{number}"  # one block too many


def _describe_resnet(state: State) -> dict[str, Any]:
    """Depth and stem of a ResNet from its keys."""
    blocks = {int(key.split(".")[2]) for key in state if key.startswith("backbone.layer3.")}
    known = {6: "resnet50", 23: "resnet101"}
    if len(blocks) not in known:
        raise RepriError(
            f"The file holds a ResNet with {len(blocks)} blocks in layer3: only ResNet-50 (6) and -101 (23) are known."
        )
    stem = "deep" if "backbone.layer0.3.weight" in state else "plain"
    return {"backbone": known[len(blocks)], "stem": stem}


def _describe_vgg(state: State) -> dict[str, Any]:
    """Kind of a VGG-16 from its keys."""
    return {"backbone": "vgg16_bn" if "backbone.layer0.1.running_mean" in state else "vgg16"}


def _is_resnet(keys: Mapping[str, Tensor]) -> bool:
    return "conv1.weight" in keys and "layer1.0.conv1.weight" in keys


KINDS = (
    Kind("authors", lambda keys: "layer0.0.weight" in keys, _from_authors),
    Kind("torchvision", lambda keys: "features.18.0.weight" in keys, _from_mobilenet),
    Kind("lite", lambda keys: "_conv_stem.weight" in keys, _from_lite),
    Kind("torchvision", lambda keys: "features.0.weight" in keys, _from_vgg),
    Kind("semseg", lambda keys: _is_resnet(keys) and "conv2.weight" in keys, _from_resnet),
    Kind("torchvision", _is_resnet, _from_resnet),
)
"""Kinds of foreign files; the first that recognises a file converts it."""
