"""A fitted segmenter as one safetensors file: the support's cells, and everything else as JSON in its metadata."""

from __future__ import annotations

import dataclasses
import inspect
import json
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typing_extensions import NotRequired, TypedDict

from repri.features.extractor import FeatureExtractor
from repri.inference import InferenceConfig
from repri.models.load import named_by_a_file
from repri.runtime.errors import RepriError
from repri.runtime.reading import parse_json, short, validated
from repri.runtime.tensors import read_tensors, write_tensors

from .classify import Shots
from .experts.blend import Choice
from .experts.learned import Learned
from .experts.textures import SMALL, Textures
from .logistic import make_classifier

if TYPE_CHECKING:
    from torch import Tensor

    from .fitted import Fitted

__all__ = ["load_fitted", "save_fitted"]

KEY, FORMAT = "repri-segmenter", 2
KINDS = ("features", "white", "labels", "masks")
"""Tensors of a support; masks are there for methods that look at them."""


def save_fitted(fitted: Fitted, path: Path) -> None:
    """Write a fitted segmenter, whole or not at all."""
    if path.suffix != ".safetensors":
        raise RepriError(f"A segmenter is saved as .safetensors: give such a file name, got {str(path)!r}.")
    shots = fitted.shots
    tensors = {f"{kind}.{k}": tensor for kind in KINDS for k, tensor in enumerate(getattr(shots, kind))}
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
        content = parse_json(metadata[KEY], "its metadata")
        if content["format"] != FORMAT:
            raise RepriError(f"{path} was written by another version of repri (format {short(content['format'])}).")
        validated(Content, content, "its metadata")
        params, made_with = dict(content["params"]), dict(content["extractor"])
        classes, choice = tuple(str(name) for name in content["classes"]), Choice(**content["choice"])
        textures = _unpacked(tensors, content["textures"]) if "textures" in content else None
        count = sum(key.startswith("features.") for key in tensors)
        kinds = KINDS if "masks.0" in tensors else KINDS[:3]
        groups = [tuple(tensors[f"{kind}.{k}"] for k in range(count)) for kind in kinds]
        params.setdefault("weights", None)  # which former versions did not have
        _check_params(params)
        params |= {"scales": tuple(params["scales"]), "config": _config(params["config"])}
        _check_shots(groups[:3])
    except (KeyError, TypeError, AttributeError, ValueError, RuntimeError, OverflowError) as error:
        if isinstance(error, RepriError) and "another version" in str(error):
            raise
        raise RepriError(f"{path} is not a segmenter that repri saved, or it is damaged ({error}).") from None
    named = params["extractor"] if extractor is None else None
    params["extractor"] = extractor if extractor is not None else params["extractor"]
    if params["extractor"] is None:
        raise RepriError(f"{path} was made with an extractor of your own, {made_with['name']}: give it as extractor=.")
    try:
        params["device"] = device
        segmenter = Segmenter(**params)
        with nullcontext() if named is None else named_by_a_file(path, named):
            loaded = segmenter.feature_extractor
        segmenter._look()
    except (TypeError, AttributeError) as error:  # a parameter that is no parameter of this kind
        raise RepriError(f"{path} is not a segmenter that repri saved, or it is damaged ({error}).") from None
    if loaded.identity != made_with["identity"]:
        raise RepriError(
            f"{path} holds features of {made_with['name']}, and {loaded.name} here has other weights or settings: "
            "use the extractor that it was made with."
        )
    for mask, labels in zip(groups[3] if len(groups) > 3 else (), groups[2], strict=False):
        if mask.ndim != 2 or loaded.grid((mask.shape[0], mask.shape[1])).cells != tuple(labels.shape):
            raise RepriError(f"{path} is not a segmenter that repri saved, or it is damaged (its masks do not fit).")
    support = (Shots(*groups), len(classes), segmenter.inference, loaded, bool(params["joint"]))
    classifier = make_classifier(choice.logistic, *support)
    look = segmenter._look() if choice.size is None else dataclasses.replace(segmenter._look(), size=choice.size)
    return Fitted(classes, look, classifier, segmenter.refinement(choice), segmenter.get_params(), choice, textures)


class Params(TypedDict, total=False):
    """The parameters of a saved segmenter; that none is missing is checked later."""

    extractor: str | None
    method: str
    config: str | dict[str, Any] | None
    size: int | None
    shifts: int
    device: str
    refine: str
    mirror: bool
    scales: list[float]
    tile: int | None
    joint: bool
    auto: bool
    textures: float | None
    weights: str | None


class Made(TypedDict):
    """The extractor of a saved segmenter."""

    name: str
    identity: str


class Content(TypedDict):
    """The metadata of a saved segmenter."""

    classes: list[str]
    params: Params
    extractor: Made
    choice: Choice
    textures: NotRequired[dict[str, Any]]


def _check_shots(groups: Sequence[Sequence[Tensor]]) -> None:
    """Features, whitened features and labels must lie on the same cells."""
    if not groups[0]:
        raise ValueError("it has no support")
    for features, white, labels in zip(*groups, strict=True):
        if features.ndim != 3 or white.ndim != 3 or not features.shape[1:] == white.shape[1:] == labels.shape:
            raise ValueError("its support does not lie on one grid")


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
