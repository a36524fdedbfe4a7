"""Files of trained heads: the head, and the extractor that it belongs to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from torch import Tensor

from repri.models.weights.files import load_exactly, read_tensors, write_tensors
from repri.runtime.errors import RepriError

from .blocks import Blocks
from .convolution import Head
from .discriminant import Discriminant

__all__ = ["AnyHead", "is_head", "load_head", "save_head"]

AnyHead = Head | Blocks | Discriminant

METADATA = "repri-head"
"""Key in a file's metadata that says that the file holds a head."""


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
    try:
        content = json.loads(metadata[METADATA])
        head, base = _build(dict(content["head"])), {"name": content["base"]["name"], **content["base"]}
    except (KeyError, ValueError, TypeError) as error:
        raise RepriError(f"{path} is damaged, or holds no head that this project wrote ({error}).") from None
    load_exactly(head, {k.removeprefix("head."): v for k, v in tensors.items() if k.startswith("head.")}, str(path))
    return head, base


def _build(options: dict[str, Any]) -> AnyHead:
    """Build an untrained head from its options."""
    rest = {key: value for key, value in options.items() if key != "kind"}
    if options["kind"] == "blocks":
        return Blocks(**rest)
    if options["kind"] == "discriminant":
        return Discriminant(**rest)
    return Head(**options)
