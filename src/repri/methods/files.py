"""Files of trained methods: the network, and how it was trained."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import torch
from annotated_types import Len
from pydantic import Field
from typing_extensions import TypedDict

from repri.runtime.errors import RepriError
from repri.runtime.reading import parse_json, validated
from repri.runtime.tensors import check_exactly, load_exactly, read_tensors, write_tensors

from .learned import LearnedMethod, Training

__all__ = ["load_method", "save_method"]

KEY = "repri-method"
"""Key in a file's metadata that says that the file holds a trained method."""
Count = Annotated[int, Field(ge=0, le=1_000_000_000)]
Width = Annotated[int, Field(ge=1, le=1_000_000)]


class Extractor(TypedDict):
    """The extractor whose features the method takes."""

    name: str
    identity: str
    widths: Annotated[list[Width], Len(1, 256)]


class Content(TypedDict):
    """The metadata of a trained method."""

    method: str
    settings: dict[str, Any]
    extractor: Extractor
    seen: list[str]
    shots: Count
    episodes: Count
    more: dict[str, Any]


def save_method(path: Path, method: LearnedMethod) -> None:
    """Write a trained method to a safetensors file, whole or not at all.

    Args:
        path: The new file.
        method: The method; its ``training`` says how it was trained.
    """
    network, made = method.network, method.training
    if network is None or made is None:
        raise RuntimeError("a method is saved when it has a network and knows its training")
    content: Content = {
        "method": method.name,
        "settings": method.options(),
        "extractor": {"name": made.extractor, "identity": made.identity, "widths": list(made.widths)},
        "seen": list(made.seen),
        "shots": made.shots,
        "episodes": made.episodes,
        "more": dict(made.more),
    }
    write_tensors(path, network.state_dict(), {KEY: json.dumps(content)})


def load_method(path: Path, settings: Mapping[str, Any] | None = None, name: str | None = None) -> LearnedMethod:
    """Read a trained method.

    Args:
        path: A file that :func:`save_method` wrote, or the folder in which it is called ``method.safetensors``.
        settings: Settings that differ from those of the file.
        name: The method that the file must hold; None: any.

    Returns:
        The method with its network.
    """
    from .registry import build_method

    path = path.expanduser()
    path = path / "method.safetensors" if path.is_dir() else path
    state, metadata = read_tensors(path)
    try:
        content = validated(Content, parse_json(metadata.get(KEY, "null"), "its metadata"), "its metadata")
        made, widths = content["extractor"], tuple(content["extractor"]["widths"])
        if name not in (None, content["method"]):
            raise RepriError(f"{path} holds a trained {content['method']}, not {name}.")
        method = build_method(content["method"], settings=content["settings"] | dict(settings or {}))
        if not isinstance(method, LearnedMethod):
            raise RepriError(f"the method {content['method']} is not trained")
        with torch.device("meta"):  # without memory, until the file has turned out to hold this much
            check_exactly(method.build(widths), state, str(path))
    except (TypeError, ValueError, LookupError, RuntimeError) as error:
        if isinstance(error, RepriError) and str(path) in str(error):
            raise
        raise RepriError(f"{path} is damaged, or holds no method that repri trained ({error}).") from None
    network = method.start(widths)
    load_exactly(network, state, str(path))
    network.eval()
    facts = {key: content[key] for key in ("shots", "episodes", "more")}
    method.training = Training(made["name"], made["identity"], widths, tuple(content["seen"]), **facts)
    method.seen = method.training.seen
    return method


def facts_of(method: LearnedMethod) -> dict[str, Any]:
    """How a method was trained, as plain values for results."""
    return {} if method.training is None else dataclasses.asdict(method.training)
