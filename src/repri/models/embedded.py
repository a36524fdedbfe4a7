"""The model that comes with the package: ``embedded.safetensors``, described in ``embedded.md``."""

from __future__ import annotations

import hashlib
from pathlib import Path

__all__ = ["EMBEDDED", "SHA256", "embedded_path"]

EMBEDDED = Path(__file__).with_name("embedded.safetensors")
SHA256 = "82143a1d0ed56f84ec902da954695e64178e8161ba2e26dc98e07f7e16cebcc0"


def embedded_path() -> Path:
    """The file, which must be the one that was published."""
    try:
        content = EMBEDDED.read_bytes()
    except OSError as error:
        raise ValueError(
            f"the embedded model {EMBEDDED} cannot be read ({error.strerror}; expected sha256 {SHA256[:16]}…): "
            "install repri again"
        ) from None
    found = hashlib.sha256(content).hexdigest()
    if found != SHA256:
        raise ValueError(
            f"the embedded model {EMBEDDED} is damaged: its sha256 is {found[:16]}…, expected {SHA256[:16]}…: "
            "install repri again"
        )
    return EMBEDDED
