"""Weights files: read safely, recognised, renamed to our keys, loaded without a key left over.

Five kinds are understood:

    repri        our own safetensors, the configuration in the metadata
    authors      trained PSPNets of the RePRI code: {'state_dict': …}, keys module.layer0 … classifier
    semseg       ImageNet ResNets with a deep stem (resnet50_v2.pth): conv1, conv2, conv3, layer1 …
    torchvision  ImageNet ResNets (conv1, layer1 …, fc), VGGs (features.0 …) and MobileNetV2 (features.0.0 …)
    lite         ImageNet EfficientNet-Lite0 (_conv_stem, _blocks.0 …)

Our keys are those of :class:`repri.models.pspnet.PSPNet` and :class:`repri.models.mobile.CompactNet`:
``backbone.layer0…``, ``bottleneck.…``, ``classifier.…``, and ``backbone.fc`` for an ImageNet head.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn as nn
from torch import Tensor

from repri.features.extractor import IMAGENET
from repri.models.networks.mobile import STAGES
from repri.runtime.files import atomic

__all__ = ["Checkpoint", "load_exactly", "read_checkpoint", "read_tensors", "save_checkpoint", "write_tensors"]


class Checkpoint(NamedTuple):
    path: Path
    kind: str
    """repri, authors, semseg, torchvision or lite."""
    state: dict[str, Tensor]
    """By our keys."""
    config: dict[str, Any]
    """What the file tells of the architecture: ``backbone`` and ``stem``, or our own full configuration."""

    @property
    def complete(self) -> bool:
        """Whether it holds a whole network, or the backbone only."""
        return any(key.startswith("bottleneck.") for key in self.state)


def read_checkpoint(path: str | Path) -> Checkpoint:
    """Read and recognise a weights file; one sentence if it is neither safe nor known."""
    path = Path(path)
    raw, metadata = read_tensors(path)
    if "repri" in metadata:
        return Checkpoint(path, "repri", raw, _own_config(path, metadata["repri"]))
    if isinstance(raw.get("state_dict"), dict):
        raw = raw["state_dict"]
    if not raw or not all(isinstance(k, str) and isinstance(v, Tensor) for k, v in raw.items()):
        raise ValueError(f"{path} holds no state dict of tensors: it is not a weights file this project knows")
    raw = {key.removeprefix("module."): value for key, value in raw.items()}
    if "layer0.0.weight" in raw:
        kind, state = "authors", {(f"backbone.{k}" if k.startswith("layer") else k): v for k, v in raw.items()}
    elif "features.18.0.weight" in raw:
        return Checkpoint(path, "torchvision", _from_mobilenet(raw), {"backbone": "mobilenet_v2"})
    elif "_conv_stem.weight" in raw:
        return Checkpoint(path, "lite", _from_lite(raw), {"backbone": "efficientnet_lite0"})
    elif "features.0.weight" in raw:
        kind, state = "torchvision", _from_vgg(raw)
    elif "conv1.weight" in raw and "layer1.0.conv1.weight" in raw:
        kind = "semseg" if "conv2.weight" in raw else "torchvision"
        state = {_from_resnet(key): value for key, value in raw.items()}
    else:
        some = ", ".join(list(raw)[:4])
        raise ValueError(
            f"{path} is of no known kind (its keys start {some}): expected a ResNet, VGG, MobileNetV2, "
            "EfficientNet-Lite0 or PSPNet"
        )
    config = _describe(state)
    if kind == "authors" and config["backbone"].startswith("vgg"):
        config["dilated"] = False  # their VGGs keep all four poolings
    return Checkpoint(path, kind, state, config)


def load_exactly(model: nn.Module, state: dict[str, Tensor], source: str) -> None:
    """Load every key of the model and no other; an error lists what is missing, unknown or misshaped."""
    wanted = model.state_dict()
    # Old files do not count batches; nothing here uses the count.
    counters = {k: v for k, v in wanted.items() if k.endswith(".num_batches_tracked") and k not in state}
    state = state | counters
    problems = []
    for label, keys in (("missing", wanted.keys() - state.keys()), ("unknown", state.keys() - wanted.keys())):
        if keys:
            problems.append(f"{len(keys)} {label} ({_some(sorted(keys))})")
    shapes = [
        f"{k}: {list(state[k].shape)} instead of {list(wanted[k].shape)}"
        for k in sorted(wanted.keys() & state.keys())
        if state[k].shape != wanted[k].shape
    ]
    if shapes:
        problems.append(f"{len(shapes)} of another shape ({_some(shapes)})")
    if problems:
        raise ValueError(f"{source} does not fit {type(model).__name__}: keys {'; '.join(problems)}")
    model.load_state_dict(state, strict=True)


def save_checkpoint(path: str | Path, state: dict[str, Tensor], config: dict[str, Any]) -> None:
    """Our own format: safetensors with the configuration in the metadata, written whole or not at all."""
    write_tensors(Path(path), state, {"repri": json.dumps(config, sort_keys=True)})


def write_tensors(path: Path, tensors: dict[str, Tensor], metadata: dict[str, str]) -> None:
    """A safetensors file, written whole or not at all, with the permissions that any other new file has."""
    from safetensors.torch import save

    content = save({key: value.detach().cpu().contiguous() for key, value in tensors.items()}, metadata)
    with atomic(path) as temporary:
        temporary.write_bytes(content)


def read_tensors(path: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """The content of a weights file as it is, and the metadata of a safetensors one."""
    if not path.is_file():
        raise ValueError(f"no weights file at {path}")
    try:
        with path.open("rb") as file:
            start = file.read(9)
        if path.suffix == ".safetensors" or start[8:] == b"{":  # a length of 8 bytes, then JSON
            from safetensors import safe_open

            with safe_open(path, framework="pt") as file:
                return {key: file.get_tensor(key) for key in file.keys()}, file.metadata() or {}  # noqa: SIM118
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # both libraries raise a whole family of errors for a damaged file
        if isinstance(error, MemoryError):
            raise
        raise ValueError(
            f"{path} cannot be read as weights: it is damaged, no weights file, or a pickle that holds more than that"
        ) from error
    if not isinstance(content, dict):
        raise ValueError(f"{path} holds a {type(content).__name__}, not a state dict")
    return content, {}


def _own_config(path: Path, text: str) -> dict[str, Any]:
    known = {"backbone", "stem", "stride_in", "bn_eps", "dilated", "classes", "size", "seen"}
    try:
        config = json.loads(text)
        unknown = sorted(config.keys() - known)
    except (ValueError, AttributeError):
        config, unknown = {}, []
    if "backbone" not in config:
        raise ValueError(f"{path} says in its metadata that it is ours, but not which network it holds: it is damaged")
    if unknown:
        raise ValueError(f"{path} has settings that this version does not know: {', '.join(unknown)}")
    return config


def _from_resnet(key: str) -> str:
    """torchvision's or semseg's key → ours. In ``layer0``: conv, bn, relu, three times in the deep stem."""
    first, _, rest = key.partition(".")
    if first.startswith(("conv", "bn")) and first[-1] in "123":
        place = 3 * (int(first[-1]) - 1) + (1 if first.startswith("bn") else 0)
        return f"backbone.layer0.{place}.{rest}"
    return f"backbone.{key}"


def _from_vgg(raw: dict[str, Tensor]) -> dict[str, Tensor]:
    """``features.N`` → ``layerG.n``; the fully connected classifier has no place in an extractor."""
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
            state[key] = value  # not ours: load_exactly will name it
            continue
        group = max(g for g in range(5) if starts[g] <= int(number))
        state[f"backbone.layer{group}.{int(number) - starts[group]}.{leaf}"] = value
    return state


def _from_mobilenet(raw: dict[str, Tensor]) -> dict[str, Tensor]:
    """``features.N.conv.M`` → ``layerG.n.expand …``; what follows the last block is for ImageNet's classes."""
    state = {}
    for key, value in raw.items():
        part, _, rest = key.partition(".")
        number, _, leaf = rest.partition(".")
        if part == "classifier" or (part, number) == ("features", "18"):
            continue
        if part != "features" or not number.isdigit():
            state[key] = value  # not ours: load_exactly will name it
        elif number == "0":
            state[f"backbone.layer0.0.{leaf}"] = value
        else:
            steps = ("spread", "project") if number == "1" else ("expand", "spread", "project")
            place, *inner = leaf.removeprefix("conv.").split(".")
            if int(place) >= len(steps):  # the norm of the last convolution stands beside it, others within
                place, inner = str(len(steps) - 1), ["1", *inner]
            elif int(place) == len(steps) - 1:
                inner = ["0", *inner]
            block = _mobile_block("mobilenet_v2", int(number) - 1)
            state[".".join([block, steps[int(place)], *inner])] = value
    return state


def _from_lite(raw: dict[str, Tensor]) -> dict[str, Tensor]:
    """``_blocks.N._expand_conv`` → ``layerG.n.expand.0`` …; pictures normalised as all others are here.

    The published network wants (x − 127) / 128 of bytes. Its first convolution is linear, so the difference goes into
    its weights and the mean of the norm after it.
    """
    places = {"expand_conv": "expand.0", "bn0": "expand.1", "depthwise_conv": "spread.0", "bn1": "spread.1"}
    places |= {"project_conv": "project.0", "bn2": "project.1"}
    state = {}
    for key, value in raw.items():
        part, _, rest = key.partition(".")
        if part in ("_conv_head", "_bn1", "_fc"):
            continue
        number, _, leaf = rest.partition(".")
        name, _, tensor = leaf.removeprefix("_").partition(".")
        if part in ("_conv_stem", "_bn0"):
            state[f"backbone.layer0.0.{0 if part == '_conv_stem' else 1}.{rest}"] = value
        elif part == "_blocks" and number.isdigit() and name in places:
            state[f"{_mobile_block('efficientnet_lite0', int(number))}.{places[name]}.{tensor}"] = value
        else:
            state[key] = value
    weight, mean = state["backbone.layer0.0.0.weight"], state["backbone.layer0.0.1.running_mean"]
    usual_mean, usual_std = (torch.tensor(values).view(1, 3, 1, 1) for values in (IMAGENET.mean, IMAGENET.std))
    shift = (weight * (usual_mean - 127 / 255) * 255 / 128).sum((1, 2, 3))
    state["backbone.layer0.0.0.weight"] = weight * usual_std * 255 / 128
    state["backbone.layer0.0.1.running_mean"] = mean - shift
    return state


def _mobile_block(name: str, number: int) -> str:
    """Where the n-th block of a MobileNet is here; ``layer0`` starts with the stem."""
    for i, stages in enumerate(STAGES[name]):
        count = sum(stage[2] for stage in stages)
        if number < count:
            return f"backbone.layer{i}.{number + (i == 0)}"
        number -= count
    return f"backbone.{number}"  # one too many: load_exactly will name it


def _describe(state: dict[str, Tensor]) -> dict[str, Any]:
    """Backbone, stem and number of classes as far as keys and shapes tell."""
    if "backbone.layer1.0.conv1.weight" in state:
        blocks = {int(key.split(".")[2]) for key in state if key.startswith("backbone.layer3.")}
        known = {6: "resnet50", 23: "resnet101"}
        if len(blocks) not in known:
            raise ValueError(
                f"a ResNet with {len(blocks)} blocks in layer3: only ResNet-50 (6) and -101 (23) are known"
            )
        stem = "deep" if "backbone.layer0.3.weight" in state else "plain"
        config: dict[str, Any] = {"backbone": known[len(blocks)], "stem": stem}
    else:
        config = {"backbone": "vgg16_bn" if "backbone.layer0.1.running_mean" in state else "vgg16"}
    if "classifier.weight" in state:
        config["classes"] = len(state["classifier.weight"])
    return config


def _some(items: list[str], most: int = 6) -> str:
    return ", ".join(items[:most]) + (f" and {len(items) - most} more" if len(items) > most else "")
