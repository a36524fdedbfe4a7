"""Backbones of transformers (DINOv2, DINOv3, ResNet, ConvNeXt, Swin …), an optional library."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn as nn
from torch import Tensor
from typing_extensions import TypedDict

from repri.features.extractor import IMAGENET, InputRule
from repri.runtime.download import offline
from repri.runtime.errors import RepriError
from repri.runtime.reading import read_json, validated

from .extras import import_extra
from .layered import pick_layers

__all__ = ["HubBackbone"]


Colours = tuple[float, float, float]


class Preprocessor(TypedDict, total=False):
    """What is used of a model's ``preprocessor_config.json``."""

    image_mean: Colours
    image_std: Colours


class HubBackbone(nn.Module):
    """A ``transformers`` backbone: images [B, 3, H, W] → ``{stage: [B, C, h, w]}`` of the chosen stages.

    Args:
        source: Name of a model on the hub, or a folder in the hub's layout.
        layers: Stages to compute, by name or index; None takes the last one.
    """

    description: list[tuple[str, str]]
    """The model's configuration, which decides its features beyond modules and weights."""

    def __init__(self, source: str, layers: Sequence[str | int] | None = None):
        super().__init__()
        transformers = import_extra("transformers", "hub", f"hub:{source}")
        folder = Path(source)
        if source.startswith((".", "/", "~")) and not (folder.expanduser() / "config.json").is_file():
            raise RepriError(f"{source} is no folder with a config.json: a model in the hub's layout has one.")
        place = str(folder.expanduser()) if folder.expanduser().is_dir() else source
        local = {"local_files_only": True} if offline() else {}
        try:
            config = transformers.AutoConfig.from_pretrained(place, trust_remote_code=False, **local)
            classes = transformers.models.auto.modeling_auto.MODEL_FOR_BACKBONE_MAPPING
            if type(config) not in classes:
                raise RepriError(f"{source} is a {config.model_type} model, and transformers has no backbone for it.")
            # AutoBackbone is not used because it takes a local folder for a name on the hub.
            self.layers = pick_layers(layers, list(config.stage_names), source)
            self.model, loading = classes[type(config)].from_pretrained(
                place, out_features=list(self.layers), dtype=torch.float32, output_loading_info=True, **local
            )
        except RepriError:
            raise
        except Exception as error:  # whatever the config.json of others makes transformers do
            raise RepriError(
                f"{source} cannot be loaded: {' '.join(str(error).split())[:300] or type(error).__name__} "
                "(without network, give a folder that holds its config.json and model.safetensors)"
            ) from None
        _check_complete(source, loading)
        self.channels = dict(zip(self.layers, self.model.channels, strict=True))
        # The grid of a plain vision transformer is that of its patches; other models stride like convolutions.
        patch = getattr(config, "patch_size", None) if not hasattr(config, "depths") else None
        patch = patch[0] if isinstance(patch, (tuple, list)) else patch
        self.strides = dict.fromkeys(self.layers, patch) if patch else self._measure_strides()
        self.rule = _input_rule(transformers, place, patch, local)
        volatile = ("_name_or_path", "transformers_version", "architectures")
        self.description = sorted((k, repr(v)) for k, v in config.to_dict().items() if k not in volatile)

    def forward(self, images: Tensor) -> dict[str, Tensor]:
        maps = self.model(images).feature_maps
        return dict(zip(self.layers, maps, strict=True))

    def shortened(self) -> HubBackbone:
        """A copy without the last transformer blocks that no chosen stage needs."""
        config = self.model.config
        depth = max(1, list(config.stage_names).index(self.layers[-1]))
        if config.model_type != "dinov2" or depth == config.num_hidden_layers:
            return copy.deepcopy(self)
        short, short.model, short.model.encoder = _nested_copy(self, "model", "encoder")
        short.model.encoder.layer = nn.ModuleList(self.model.encoder.layer[:depth])
        return copy.deepcopy(short)

    def _measure_strides(self) -> dict[str, int]:
        with torch.inference_mode():
            return {layer: 224 // m.shape[-1] for layer, m in self(torch.zeros(1, 3, 224, 224)).items()}


def _check_complete(source: str, loading: dict[str, Any]) -> None:
    """Refuse a model whose file lacks weights, which transformers would set at random."""
    # A backbone adds norms to the stages of some networks; they start as the identity and are in no file.
    lost = sorted(key for key in loading["missing_keys"] if not key.startswith("hidden_states_norms."))
    lost += sorted(str(key) for key in loading["mismatched_keys"])
    if lost:
        raise RepriError(f"{source}: {len(lost)} weights are missing or of another shape ({', '.join(lost[:6])} …).")


def _nested_copy(module: nn.Module, *path: str) -> list[Any]:
    """Shallow copies of a module and of its descendants along a path; replacing their children leaves the originals."""
    copies = []
    for name in (*path, None):
        twin = copy.copy(module)
        twin._modules = dict(module._modules)
        copies.append(twin)
        module = module if name is None else module.get_submodule(name)
    return copies


def _input_rule(transformers: Any, place: str, patch: int | None, local: dict[str, bool]) -> InputRule:
    """Input rule with the model's own normalisation if its folder says it, else that of ImageNet."""
    mean, std = IMAGENET.mean, IMAGENET.std
    missing_is_fine = {"_raise_exceptions_for_missing_entries": False, "_raise_exceptions_for_connection_errors": False}
    path = transformers.utils.cached_file(place, "preprocessor_config.json", **local, **missing_is_fine)
    if path is not None:
        settings = validated(Preprocessor, read_json(Path(path)), str(path))
        mean, std = settings.get("image_mean", mean), settings.get("image_std", std)
    if patch:
        return InputRule(max(1, 420 // patch) * patch, patch, mean, std)
    return InputRule(416, 32, mean, std)
