"""Files of trained heads: the head, and the extractor that it belongs to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from annotated_types import Len
from pydantic import Field
from safetensors import SafetensorError, safe_open
from torch import Tensor
from typing_extensions import Required, TypedDict

from repri.runtime.errors import RepriError
from repri.runtime.reading import check_regular, parse_json, validated
from repri.runtime.tensors import check_exactly, load_exactly, read_tensors, write_tensors

from .blocks import Blocks
from .convolution import Head
from .discriminant import Discriminant

__all__ = ["AnyHead", "is_head", "load_head", "save_head"]

AnyHead = Head | Blocks | Discriminant

METADATA = "repri-head"
"""Key in a file's metadata that says that the file holds a head."""


Size = Annotated[int, Field(ge=1, le=1_000_000)]


class Options(TypedDict, total=False):
    """The options of a head, of which each kind has some."""

    kind: Required[Literal["conv", "psp", "blocks", "discriminant"]]
    channels: Size
    width: Size
    kernel: Annotated[int, Field(ge=1, le=99)]
    upsample: Annotated[int, Field(ge=1, le=64)]
    dropout: Annotated[float, Field(ge=0, le=1)]
    depth: Annotated[int, Field(ge=1, le=256)]
    heads: Annotated[int, Field(ge=1, le=1024)]
    hidden: Size
    parts: Annotated[list[Size], Len(1, 256)]


class Base(TypedDict, total=False):
    """The extractor that a head belongs to."""

    name: Required[Annotated[str, Len(1)]]
    weights: str | None
    layers: list[str | int] | None
    combine: Literal["concat", "mean"]
    identity: str | None
    size: Annotated[int, Field(ge=8, le=16384)] | None
    seen: list[str] | None


class Content(TypedDict):
    """The metadata of a file that holds a head."""

    head: Options
    base: Base


def save_head(path: Path, head: AnyHead, base: dict[str, Any], more: dict[str, Tensor] | None = None) -> None:
    """Write a head to a safetensors file.

    Args:
        path: The new file.
        head: The head.
        base: The extractor that the head belongs to (``name``, ``weights``, ``layers``, ``combine``, ``identity``), the
            ``size`` of the images in training, and the classes whose labels were used (``seen``).
        more: Tensors to keep in the same file, such as those of the classifier.
    """
    tensors = {f"head.{key}": value for key, value in head.state_dict().items()} | (more or {})
    write_tensors(path, tensors, {METADATA: json.dumps({"head": head.options, "base": base})})


def is_head(path: Path) -> bool:
    """Whether a weights file holds a head; only its metadata are read."""
    if path.exists():
        check_regular(path)
    try:
        with safe_open(path, "pt") as content:
            return METADATA in (content.metadata() or {})
    except (OSError, SafetensorError):
        return METADATA in read_tensors(path)[1]  # which says what is wrong with the file


def load_head(path: Path) -> tuple[AnyHead, dict[str, Any]]:
    """Read a head from its file.

    Args:
        path: A file that :func:`save_head` wrote.

    Returns:
        The head, and the description of the extractor that it belongs to.
    """
    tensors, metadata = read_tensors(path)
    state = {key.removeprefix("head."): value for key, value in tensors.items() if key.startswith("head.")}
    try:
        content = validated(Content, parse_json(metadata.get(METADATA, "null"), "its metadata"), "its metadata")
        options = {name: value for name, value in content["head"].items() if value is not None}
        with torch.device("meta"):  # without memory, until the file has turned out to hold this much
            check_exactly(_build(options), state, str(path))
        head = _build(options)
    except (TypeError, ValueError, LookupError, RuntimeError) as error:
        if isinstance(error, RepriError) and "does not fit" in str(error):
            raise
        raise RepriError(f"{path} is damaged, or holds no head that this project wrote ({error}).") from None
    load_exactly(head, state, str(path))
    return head, dict(content["base"])


def _build(options: dict[str, Any]) -> AnyHead:
    """Build an untrained head from its options."""
    rest = {key: value for key, value in options.items() if key != "kind"}
    if options["kind"] == "blocks":
        return Blocks(**rest)
    if options["kind"] == "discriminant":
        return Discriminant(**rest)
    return Head(**options)
