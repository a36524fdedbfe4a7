"""Backbones of other libraries: transformers (DINOv2, DINOv3, ResNet, ConvNeXt, Swin …) and timm.

Both are extras, imported only when one of their models is asked for.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn as nn
from torch import Tensor

from .extractor import IMAGENET, InputRule

__all__ = ["HubBackbone", "TimmBackbone", "pick_layers"]


class HubBackbone(nn.Module):
    """A ``transformers`` backbone: images → ``{stage: [B, C, h, w]}`` of the stages that are taken."""

    def __init__(self, source: str, layers: Sequence[str | int] = (-1,)):
        super().__init__()
        transformers = _import("transformers", "hub", f"hub:{source}")
        folder = Path(source)
        if source.startswith((".", "/", "~")) and not (folder.expanduser() / "config.json").is_file():
            raise ValueError(f"{source} is no folder with a config.json: expected a model in the hub's layout")
        place = str(folder.expanduser()) if folder.expanduser().is_dir() else source
        try:
            config = transformers.AutoConfig.from_pretrained(place)
            classes = transformers.models.auto.modeling_auto.MODEL_FOR_BACKBONE_MAPPING
            if type(config) not in classes:
                raise ValueError(f"{source} is a {config.model_type} model, which transformers offers no backbone for")
            # Not AutoBackbone: it takes a local folder for a name on the hub.
            self.layers = pick_layers(layers, list(config.stage_names), source)
            self.model = classes[type(config)].from_pretrained(
                place, out_features=list(self.layers), dtype=torch.float32
            )
        except OSError as error:
            raise ValueError(
                f"cannot load {source}: {str(error).splitlines()[0]} "
                "(without network, give a folder that holds its config.json and model.safetensors)"
            ) from None
        self.channels = dict(zip(self.layers, self.model.channels, strict=True))
        self.patch = int(getattr(config, "patch_size", 0) or 0) if not hasattr(config, "depths") else 0
        self.stride = self.patch or _stride(self)
        self.rule = _rule(place, self.patch)

    def forward(self, images: Tensor) -> dict[str, Tensor]:
        maps = self.model(images).feature_maps
        return dict(zip(self.layers, maps, strict=True))


class TimmBackbone(nn.Module):
    """A ``timm`` model: images → ``{"layer0": …}``, its feature levels in order."""

    def __init__(self, name: str, layers: Sequence[str | int] = (-1,), pretrained: bool = True):
        super().__init__()
        timm = _import("timm", "timm", f"timm:{name}")
        try:
            probe = timm.create_model(name, pretrained=False, features_only=True)
            levels = [f"layer{i}" for i in range(len(probe.feature_info.channels()))]
            self.layers = pick_layers(layers, levels, f"timm:{name}")
            indices = tuple(levels.index(layer) for layer in self.layers)
            self.model = timm.create_model(name, pretrained=pretrained, features_only=True, out_indices=indices)
        except RuntimeError as error:
            raise ValueError(f"timm:{name}: {str(error).splitlines()[0]}") from None
        self.channels = dict(zip(self.layers, self.model.feature_info.channels(), strict=True))
        self.stride = int(self.model.feature_info.reduction()[-1])
        data = timm.data.resolve_model_data_config(self.model)
        self.rule = InputRule(IMAGENET.size, 1, tuple(data["mean"]), tuple(data["std"]))

    def forward(self, images: Tensor) -> dict[str, Tensor]:
        return dict(zip(self.layers, self.model(images), strict=True))


def pick_layers(layers: Sequence[str | int], known: Sequence[str], source: str) -> tuple[str, ...]:
    """Names, or indices that may count from the end, to names in the order of the network."""
    picked = []
    for layer in layers:
        try:
            picked.append(known[layer] if isinstance(layer, int) else known[known.index(layer)])
        except (IndexError, ValueError):
            raise ValueError(f"{source} has no layer {layer!r}; known: {', '.join(known)}") from None
    return tuple(sorted(set(picked), key=known.index))


def _rule(place: str, patch: int) -> InputRule:
    """The model's own normalisation if it ships a preprocessor configuration, else ImageNet's."""
    mean, std = IMAGENET.mean, IMAGENET.std
    path = Path(place) / "preprocessor_config.json"
    if path.is_file():
        settings: dict[str, Any] = json.loads(path.read_text())
        mean, std = tuple(settings.get("image_mean", mean)), tuple(settings.get("image_std", std))
    if patch:
        return InputRule(max(1, 420 // patch) * patch, patch, mean, std)
    return InputRule(416, 32, mean, std)


def _stride(backbone: HubBackbone) -> int:
    with torch.inference_mode():
        return 224 // next(reversed(backbone(torch.zeros(1, 3, 224, 224)).values())).shape[-1]


def _import(module: str, extra: str, wanted: str) -> Any:
    import importlib

    try:
        return importlib.import_module(module)
    except ImportError:
        raise ModuleNotFoundError(f"{wanted} needs {module}: pip install 'repri[{extra}]'") from None
    except (RuntimeError, OSError) as error:  # a torchvision built for another torch, for instance
        reason = str(error).splitlines()[0]
        raise ModuleNotFoundError(
            f"{wanted} needs {module}, which is installed but does not import: {reason}"
        ) from None
