"""A fitted segmenter as one safetensors file: the support's cells, and everything else as JSON in its metadata."""

from __future__ import annotations

import dataclasses
import inspect
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from repri.features.extractor import FeatureExtractor
from repri.inference import InferenceConfig
from repri.models.weights.checkpoints import read_tensors, write_tensors
from repri.runtime.errors import RepriError

from .classify import Classifier, Shots
from .experts.blend import Choice
from .experts.learned import Learned
from .experts.textures import SMALL, Textures

if TYPE_CHECKING:
    from torch import Tensor

    from .fitted import Fitted

__all__ = ["load_fitted", "save_fitted"]

KEY, FORMAT = "repri-segmenter", 2


def save_fitted(fitted: Fitted, path: Path) -> None:
    """Write a fitted segmenter, whole or not at all."""
    if path.suffix != ".safetensors":
        raise RepriError(f"A segmenter is saved as .safetensors: give such a file name, got {str(path)!r}.")
    shots = fitted.shots
    tensors = {
        f"{kind}.{k}": tensor
        for kind, group in (("features", shots.features), ("white", shots.white), ("labels", shots.labels))
        for k, tensor in enumerate(group)
    }
    extractor = fitted.look.extractor
    params = {name: _plain(value) for name, value in fitted.params.items()}
    named = not isinstance(fitted.params["extractor"], FeatureExtractor)
    content = {
        "format": FORMAT,
        "classes": list(fitted.classes),
        "params": params | {"extractor": params["extractor"] if named else None},
        "extractor": {"name": extractor.name, "identity": extractor.identity},
        "choice": dataclasses.asdict(fitted.choice),
    }
    if fitted.textures is not None:
        more, content["textures"] = _packed(fitted.textures)
        tensors |= more
    write_tensors(path, tensors, {KEY: json.dumps(content)})


def load_fitted(path: Path, extractor: str | Path | FeatureExtractor | None, device: str) -> Fitted:
    """Read a fitted segmenter; its features must be those of the same extractor."""
    from .fitted import Fitted
    from .segmenter import Segmenter

    tensors, metadata = read_tensors(path)
    try:
        content = json.loads(metadata[KEY])
        if content["format"] != FORMAT:
            raise RepriError(f"{path} was written by another version of repri (format {content['format']}).")
        params, made_with = dict(content["params"]), dict(content["extractor"])
        classes, choice = tuple(str(name) for name in content["classes"]), _choice(content["choice"])
        textures = _unpacked(tensors, content["textures"]) if "textures" in content else None
        count = sum(key.startswith("features.") for key in tensors)
        groups = [tuple(tensors[f"{kind}.{k}"] for k in range(count)) for kind in ("features", "white", "labels")]
        _check_params(params)
    except (KeyError, TypeError, AttributeError, json.JSONDecodeError) as error:
        raise RepriError(f"{path} is not a segmenter that repri saved, or it is damaged ({error}).") from None
    params["extractor"] = extractor if extractor is not None else params["extractor"]
    if params["extractor"] is None:
        raise RepriError(f"{path} was made with an extractor of your own, {made_with['name']}: give it as extractor=.")
    params |= {"device": device, "scales": tuple(params["scales"]), "config": _config(params["config"])}
    segmenter = Segmenter(**params)
    loaded = segmenter.feature_extractor
    if loaded.identity != made_with["identity"]:
        raise RepriError(
            f"{path} holds features of {made_with['name']}, and {loaded.name} here has other weights or settings: "
            "use the extractor that it was made with."
        )
    classifier = Classifier(Shots(*groups), len(classes), segmenter.inference, loaded.background, bool(params["joint"]))
    look = segmenter._look() if choice.size is None else dataclasses.replace(segmenter._look(), size=choice.size)
    return Fitted(classes, look, classifier, segmenter.refinement(choice), segmenter.get_params(), choice, textures)


def _choice(content: Mapping[str, Any]) -> Choice:
    return dataclasses.replace(Choice(**content), offsets=tuple(content["offsets"]))


def _packed(textures: Textures) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The expert on textures as tensors and plain values."""
    tensors = {f"learned.{f.name}": getattr(textures.learned, f.name) for f in dataclasses.fields(Learned)}
    tensors |= {"support.hidden": textures.hidden, "support.targets": textures.targets}
    tensors = {name: tensor.contiguous() for name, tensor in tensors.items()}
    config = dataclasses.asdict(textures.config)
    return tensors, {
        "scale": textures.scale,
        "shots": textures.shots,
        "config": config,
        "extractor": textures.extractor.identity,
    }


def _unpacked(tensors: Mapping[str, Tensor], content: Mapping[str, Any]) -> Textures:
    learned = Learned(**{field.name: tensors[f"learned.{field.name}"] for field in dataclasses.fields(Learned)})
    if content["extractor"] != SMALL.identity:
        raise RepriError("The file was written by another version of repri, whose textures differ: fit again.")
    config = InferenceConfig(**content["config"])
    support = (tensors["support.hidden"], tensors["support.targets"], int(content["shots"]))
    return Textures(SMALL, float(content["scale"]), learned, *support, config)


def _check_params(params: Mapping[str, Any]) -> None:
    """Parameters that a segmenter does not have, or that are missing, are a KeyError with their names."""
    from .segmenter import Segmenter

    wrong = set(params) ^ set(inspect.signature(Segmenter).parameters)
    if wrong:
        raise KeyError(", ".join(sorted(wrong)))


def _plain(value: Any) -> Any:
    """A parameter as JSON has it."""
    if isinstance(value, InferenceConfig):
        return {"InferenceConfig": dataclasses.asdict(value)}
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return list(value) if isinstance(value, tuple) else value


def _config(value: Any) -> Any:
    if isinstance(value, dict) and set(value) == {"InferenceConfig"}:
        return InferenceConfig(**value["InferenceConfig"])
    return value
