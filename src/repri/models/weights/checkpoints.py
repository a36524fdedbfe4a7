"""Checkpoints: weights files that are recognised, described, and loaded into a network.

Five kinds are understood:

    repri        our own safetensors, with the configuration in the metadata
    authors      trained PSPNets of the RePRI code: {'state_dict': …}, keys module.layer0 … classifier
    semseg       ImageNet ResNets with a deep stem (resnet50_v2.pth): conv1, conv2, conv3, layer1 …
    torchvision  ImageNet ResNets (conv1, layer1 …, fc), VGGs (features.0 …) and MobileNetV2 (features.0.0 …)
    lite         ImageNet EfficientNet-Lite0 (_conv_stem, _blocks.0 …)
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field
from torch import Tensor
from typing_extensions import Required, TypedDict

from repri.models.networks.build import Backbone, Network, add_head, build_backbone
from repri.runtime.errors import RepriError
from repri.runtime.reading import parse_json, validated
from repri.runtime.tensors import load_exactly, read_tensors, write_tensors

from .conversions import KINDS

__all__ = ["Checkpoint", "load_checkpoint", "read_checkpoint", "save_checkpoint"]


class Config(TypedDict, total=False):
    """The configuration in the metadata of our own files."""

    backbone: Required[str]
    stem: Literal["deep", "plain"]
    stride_in: Literal["3x3", "1x1"]
    bn_eps: Annotated[float, Field(gt=0, lt=1)]
    dilated: bool
    classes: Annotated[int, Field(ge=1, le=65535)] | None
    size: Annotated[int, Field(ge=8, le=16384)] | None
    seen: list[str]


class Checkpoint(NamedTuple):
    """A weights file in memory."""

    path: Path
    """The file."""
    kind: str
    """repri, authors, semseg, torchvision or lite."""
    state: dict[str, Tensor]
    """Tensors by our keys."""
    config: dict[str, Any]
    """Architecture as far as the file tells it: ``backbone`` and ``stem``, or our own full configuration."""

    @property
    def complete(self) -> bool:
        """Whether the file holds a whole network; otherwise it holds the backbone only."""
        return any(key.startswith("bottleneck.") for key in self.state)


def read_checkpoint(path: str | Path) -> Checkpoint:
    """Read and recognise a weights file.

    Args:
        path: A file of one of the five kinds.

    Returns:
        The tensors by our keys, and the architecture that they belong to.
    """
    path = Path(path)
    raw, metadata = read_tensors(path)
    if "repri" in metadata:
        return Checkpoint(path, "repri", raw, _own_config(path, metadata["repri"]))
    if isinstance(raw.get("state_dict"), dict):
        raw = raw["state_dict"]
    if not raw or not all(isinstance(k, str) and isinstance(v, Tensor) for k, v in raw.items()):
        raise RepriError(f"{path} holds no state dict of tensors: it is not a weights file that this project knows.")
    raw = {key.removeprefix("module."): value for key, value in raw.items()}
    kind = next((kind for kind in KINDS if kind.recognise(raw)), None)
    if kind is None:
        raise RepriError(
            f"{path} is of no known kind (its first keys are {', '.join(list(raw)[:4])}): a ResNet, VGG, MobileNetV2, "
            "EfficientNet-Lite0 or PSPNet is expected."
        )
    try:
        state, config = kind.convert(raw)
    except (ValueError, LookupError, TypeError, AttributeError, RuntimeError) as error:  # of tensors that do not fit
        why = (
            str(error) if isinstance(error, RepriError) else f"Its keys or shapes are not those of a {kind.name} file."
        )
        raise RepriError(f"{path} cannot be used. {why}") from None
    return Checkpoint(path, kind.name, state, config)


def save_checkpoint(path: str | Path, state: dict[str, Tensor], config: dict[str, Any]) -> None:
    """Write our own format: safetensors with the configuration in the metadata, whole or not at all.

    Args:
        path: The new file.
        state: Tensors by our keys.
        config: ``backbone``, the options of :func:`~repri.models.networks.build.build_backbone`, and ``classes``,
            ``size`` and ``seen`` where they are known.
    """
    write_tensors(Path(path), state, {"repri": json.dumps(config, sort_keys=True)})


def load_checkpoint(checkpoint: Checkpoint, whole: bool | None = None, **architecture: Any) -> Network | Backbone:
    """Build the network that a file describes, and load its weights without a key left over.

    Args:
        checkpoint: The file in memory. An ImageNet classifier in it is left out.
        whole: False: the backbone only. Otherwise the whole network if the file holds it, else the backbone.
        **architecture: Options of the backbone that the file does not tell.

    Returns:
        The network with the weights of the file.
    """
    told = {k: v for k, v in checkpoint.config.items() if k not in ("backbone", "classes", "size", "seen")}
    for key, value in architecture.items():
        if key in told and told[key] != value:
            raise RepriError(f"{checkpoint.path} has {key}={told[key]!r}, not {value!r}.")
    backbone = build_backbone(checkpoint.config["backbone"], **(told | architecture))
    state = {k: v for k, v in checkpoint.state.items() if not k.startswith("backbone.fc.")}
    if checkpoint.complete and whole is not False:
        network = add_head(backbone, checkpoint.config.get("classes"), state)
        load_exactly(network, state, str(checkpoint.path))
        return network
    if checkpoint.complete:
        state = {k: v for k, v in state.items() if k.startswith("backbone.")}
    load_exactly(backbone, {k.removeprefix("backbone."): v for k, v in state.items()}, str(checkpoint.path))
    return backbone


def _own_config(path: Path, text: str) -> dict[str, Any]:
    """Configuration in the metadata of one of our files."""
    try:
        config = parse_json(text, str(path))
    except RepriError:
        config = None
    config = config if isinstance(config, dict) else {}
    unknown = sorted(config.keys() - Config.__annotations__.keys())
    if "backbone" not in config:
        raise RepriError(
            f"{path} is damaged: its metadata says that this project wrote it, but not which network it holds."
        )
    if unknown:
        raise RepriError(f"{path} has settings that this version does not know: {', '.join(unknown)}.")
    return validated(Config, config, f"{path} is damaged: its metadata")
