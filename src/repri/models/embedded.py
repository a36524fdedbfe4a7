"""The model that comes with the package: ``embedded.safetensors``, described in ``embedded.md``."""

from __future__ import annotations

import hashlib
from pathlib import Path

from safetensors.torch import load

from .whitening import Whitening

__all__ = ["EMBEDDED", "SHA256", "WHITENING", "embedded_path", "embedded_whitening"]

EMBEDDED = Path(__file__).with_name("embedded.safetensors")
SHA256 = "82143a1d0ed56f84ec902da954695e64178e8161ba2e26dc98e07f7e16cebcc0"
WHITENING = Path(__file__).with_name("whitening.safetensors")
WHITENING_SHA256 = "9a8d6793f7bf21adf8871ea1c4549b2b2e3e0ea399e0fb257923ad48bbadd0b5"


def embedded_path() -> Path:
    """The file, which must be the one that was published."""
    _published(EMBEDDED, SHA256)
    return EMBEDDED


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
