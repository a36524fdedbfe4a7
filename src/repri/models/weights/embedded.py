"""The embedded model, which is part of the package; ``embedded.md`` describes it.

embedded.safetensors       the network
discriminants.safetensors  five heads: one made with all classes of PASCAL, and one for each fold, made without
                           the classes that the fold tests
whitening.safetensors      mean and principal directions of the network's features
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from safetensors.torch import load

from repri.features.whitening import Whitening
from repri.models.heads.discriminant import Discriminant
from repri.runtime.errors import RepriError
from repri.runtime.tensors import load_exactly, read_tensors

__all__ = [
    "DEFAULTS",
    "EMBEDDED",
    "HEADS",
    "HEADS_SHA256",
    "SHA256",
    "WHITENING",
    "WHITENING_SHA256",
    "embedded_head",
    "embedded_path",
    "embedded_whitening",
]

DEFAULTS = {"default": "all"} | {f"default-fold{fold}": f"fold{fold}" for fold in range(4)}
"""Extractor → its head. The head of ``default-fold0`` was made without labels of the classes that fold 0 of PASCAL-5i
tests."""
EMBEDDED = Path(__file__).with_name("embedded.safetensors")
SHA256 = "82143a1d0ed56f84ec902da954695e64178e8161ba2e26dc98e07f7e16cebcc0"
HEADS = Path(__file__).with_name("discriminants.safetensors")
HEADS_SHA256 = "7362b000ff5aec8a17672e471ec6da623d34303c067397d96ce924600f17ad3e"
WHITENING = Path(__file__).with_name("whitening.safetensors")
WHITENING_SHA256 = "9a8d6793f7bf21adf8871ea1c4549b2b2e3e0ea399e0fb257923ad48bbadd0b5"


def embedded_path() -> Path:
    """File of the network, checked against its published sha256."""
    _read_published(EMBEDDED, SHA256)
    return EMBEDDED


def embedded_head(name: str) -> tuple[Discriminant, tuple[str, ...]]:
    """Load a head of the embedded model.

    Args:
        name: One of ``DEFAULTS``.

    Returns:
        The head, and the classes whose labels it was made with.
    """
    _read_published(HEADS, HEADS_SHA256)
    tensors, classes = read_tensors(HEADS)
    mine = f"{DEFAULTS[name]}."
    state = {key.removeprefix(mine): value.float() for key, value in tensors.items() if key.startswith(mine)}
    width, channels = state["matrix"].shape
    head = Discriminant([channels], width)
    load_exactly(head, state, str(HEADS))
    return head, tuple(json.loads(classes[DEFAULTS[name]]))


def embedded_whitening() -> Whitening:
    """Load the whitening of the network's features, made from PASCAL's training images (``benchmarks/whiten.py``)."""
    tensors = load(_read_published(WHITENING, WHITENING_SHA256))
    return Whitening(tensors["mean"].float(), tensors["basis"].float())


def _read_published(path: Path, expected: str) -> bytes:
    """Read a file of the package and check its sha256."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise RepriError(
            f"The file {path} of the embedded model cannot be read ({error.strerror}; its sha256 should be "
            f"{expected[:16]}…): install repri again."
        ) from None
    actual = hashlib.sha256(content).hexdigest()
    if actual != expected:
        raise RepriError(
            f"The file {path} of the embedded model is damaged: its sha256 is {actual[:16]}… instead of "
            f"{expected[:16]}…: install repri again."
        )
    return content
