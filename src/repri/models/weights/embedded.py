"""The model that comes with the package, described in ``embedded.md``.

embedded.safetensors       the network
discriminants.safetensors  heads on it: of all classes of PASCAL, and of those that each fold leaves out
whitening.safetensors      how the network's features spread
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from safetensors.torch import load

from repri.features.whitening import Whitening
from repri.models.heads.discriminant import Discriminant

from .checkpoints import load_exactly, read_tensors

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
"""Extractor → its head; ``default-fold0`` has seen no label of the classes that PASCAL-5i's fold 0 tests."""
EMBEDDED = Path(__file__).with_name("embedded.safetensors")
SHA256 = "82143a1d0ed56f84ec902da954695e64178e8161ba2e26dc98e07f7e16cebcc0"
HEADS = Path(__file__).with_name("discriminants.safetensors")
HEADS_SHA256 = "7362b000ff5aec8a17672e471ec6da623d34303c067397d96ce924600f17ad3e"
WHITENING = Path(__file__).with_name("whitening.safetensors")
WHITENING_SHA256 = "9a8d6793f7bf21adf8871ea1c4549b2b2e3e0ea399e0fb257923ad48bbadd0b5"


def embedded_path() -> Path:
    """The file, which must be the one that was published."""
    _published(EMBEDDED, SHA256)
    return EMBEDDED


def embedded_head(name: str) -> tuple[Discriminant, tuple[str, ...]]:
    """The head of one of ``DEFAULTS``, and the classes whose labels made it."""
    _published(HEADS, HEADS_SHA256)
    tensors, classes = read_tensors(HEADS)
    mine = f"{DEFAULTS[name]}."
    state = {key.removeprefix(mine): value.float() for key, value in tensors.items() if key.startswith(mine)}
    width, channels = state["matrix"].shape
    head = Discriminant([channels], width)
    load_exactly(head, state, str(HEADS))
    return head, tuple(json.loads(classes[DEFAULTS[name]]))


def embedded_whitening() -> Whitening:
    """How its features spread over PASCAL's training images (``benchmarks/whiten.py``)."""
    tensors = load(_published(WHITENING, WHITENING_SHA256))
    return Whitening(tensors["mean"].float(), tensors["basis"].float())


def _published(path: Path, expected: str) -> bytes:
    """A file's content, if it is what the package came with."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ValueError(
            f"the embedded model {path} cannot be read ({error.strerror}; expected sha256 {expected[:16]}…): "
            "install repri again"
        ) from None
    found = hashlib.sha256(content).hexdigest()
    if found != expected:
        raise ValueError(
            f"the embedded model {path} is damaged: its sha256 is {found[:16]}…, expected {expected[:16]}…: "
            "install repri again"
        )
    return content
