"""Backbones of other libraries: transformers (DINOv2, DINOv3, ResNet, ConvNeXt, Swin …) and timm.

Both are extras, imported only when one of their models is asked for.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import safetensors
import torch
import torch.nn as nn
from torch import Tensor

from repri.features.extractor import IMAGENET, InputRule
from repri.runtime.download import offline

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
        local = {"local_files_only": True} if offline() else {}
        try:
            config = transformers.AutoConfig.from_pretrained(place, trust_remote_code=False, **local)
            classes = transformers.models.auto.modeling_auto.MODEL_FOR_BACKBONE_MAPPING
            if type(config) not in classes:
                raise ValueError(f"{source} is a {config.model_type} model, which transformers offers no backbone for")
            # Not AutoBackbone: it takes a local folder for a name on the hub.
            self.layers = pick_layers(layers, list(config.stage_names), source)
            self.model, loading = classes[type(config)].from_pretrained(
                place, out_features=list(self.layers), dtype=torch.float32, output_loading_info=True, **local
            )
        except (OSError, safetensors.SafetensorError) as error:
            raise ValueError(
                f"cannot load {source}: {str(error).splitlines()[0]} "
                "(without network, give a folder that holds its config.json and model.safetensors)"
            ) from None
        # The norms that a backbone adds to some networks' stages start as the identity and are in no file.
        lost = sorted(key for key in loading["missing_keys"] if not key.startswith("hidden_states_norms."))
        lost += sorted(str(key) for key in loading["mismatched_keys"])
        if lost:
            raise ValueError(f"{source}: {len(lost)} weights are missing or of another shape ({', '.join(lost[:6])} …)")
        self.channels = dict(zip(self.layers, self.model.channels, strict=True))
        # A plain vision transformer keeps its patches; the others stride like a convolutional network.
        patch = getattr(config, "patch_size", None) if not hasattr(config, "depths") else None
        patch = patch[0] if isinstance(patch, (tuple, list)) else patch
        self.strides = dict.fromkeys(self.layers, patch) if patch else self._measure_strides()
        self.rule = _rule(transformers, place, patch, local)
        volatile = ("_name_or_path", "transformers_version", "architectures")
        self.description = sorted((k, repr(v)) for k, v in config.to_dict().items() if k not in volatile)

    def forward(self, images: Tensor) -> dict[str, Tensor]:
        maps = self.model(images).feature_maps
        return dict(zip(self.layers, maps, strict=True))

    def shortened(self) -> HubBackbone:
        """The same without the blocks of a plain transformer that no wanted stage needs; weights are shared."""
        config = self.model.config
        depth = max(1, list(config.stage_names).index(self.layers[-1]))
        if config.model_type != "dinov2" or depth == config.num_hidden_layers:
            return self
        short, short.model, short.model.encoder = _nested_copy(self, "model", "encoder")
        short.model.encoder.layer = nn.ModuleList(self.model.encoder.layer[:depth])
        return short

    def _measure_strides(self) -> dict[str, int]:
        with torch.inference_mode():
            return {layer: 224 // m.shape[-1] for layer, m in self(torch.zeros(1, 3, 224, 224)).items()}


class TimmBackbone(nn.Module):
    """A convolutional (or Swin-like) ``timm`` model: images → ``{"layer0": …}``, its feature levels in order."""

    def __init__(self, name: str, layers: Sequence[str | int] = (-1,), pretrained: bool = True):
        super().__init__()
        timm = _import("timm", "timm", f"timm:{name}")
        if pretrained and offline():
            raise ValueError(f"REPRI_OFFLINE is set, so the weights of timm:{name} are not fetched")
        try:
            probe = timm.create_model(name, pretrained=False, features_only=True)
            levels = [f"layer{i}" for i in range(len(probe.feature_info.channels()))]
            self.layers = pick_layers(layers, levels, f"timm:{name}")
            indices = tuple(levels.index(layer) for layer in self.layers)
            self.model = timm.create_model(name, pretrained=pretrained, features_only=True, out_indices=indices)
        except RuntimeError as error:
            raise ValueError(f"timm:{name}: {str(error).splitlines()[0]}") from None
        self.channels = dict(zip(self.layers, self.model.feature_info.channels(), strict=True))
        self.strides = dict(zip(self.layers, map(int, self.model.feature_info.reduction()), strict=True))
        self.channels_last = getattr(self.model, "output_fmt", "NCHW") == "NHWC"
        data = timm.data.resolve_model_data_config(self.model)
        self.rule = InputRule(IMAGENET.size, 1, tuple(data["mean"]), tuple(data["std"]))

    def forward(self, images: Tensor) -> dict[str, Tensor]:
        maps = self.model(images)
        maps = [m.permute(0, 3, 1, 2) for m in maps] if self.channels_last else maps
        return dict(zip(self.layers, maps, strict=True))


def _nested_copy(module: nn.Module, *path: str) -> list[Any]:
    """Shallow copies of a module and of those down a path, whose children can be replaced without a trace."""
    copies = []
    for name in (*path, None):
        twin = copy.copy(module)
        twin._modules = dict(module._modules)
        copies.append(twin)
        module = module if name is None else module.get_submodule(name)
    return copies


def pick_layers(layers: Sequence[str | int], known: Sequence[str], source: str) -> tuple[str, ...]:
    """Names, or indices that may count from the end, to names in the order of the network."""
    if isinstance(layers, (str, int)) or not layers:
        raise ValueError(f"layers must be a list of names or numbers, such as ({known[-1]!r},), got {layers!r}")
    picked = []
    for layer in layers:
        try:
            picked.append(known[layer] if isinstance(layer, int) else known[known.index(layer)])
        except (IndexError, ValueError):
            raise ValueError(f"{source} has no layer {layer!r}; known: {', '.join(known)}") from None
    return tuple(sorted(set(picked), key=known.index))


def _rule(transformers: Any, place: str, patch: int | None, local: dict[str, bool]) -> InputRule:
    """The model's own normalisation if it ships a preprocessor configuration, else ImageNet's."""
    mean, std = IMAGENET.mean, IMAGENET.std
    missing_is_fine = {"_raise_exceptions_for_missing_entries": False, "_raise_exceptions_for_connection_errors": False}
    path = transformers.utils.cached_file(place, "preprocessor_config.json", **local, **missing_is_fine)
    if path is not None:
        settings: dict[str, Any] = json.loads(Path(path).read_text())
        mean, std = tuple(settings.get("image_mean", mean)), tuple(settings.get("image_std", std))
    if patch:
        return InputRule(max(1, 420 // patch) * patch, patch, mean, std)
    return InputRule(416, 32, mean, std)


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
