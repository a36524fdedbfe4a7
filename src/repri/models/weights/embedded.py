"""The embedded model, which is part of the package; ``embedded.md`` describes it.

embedded.safetensors       a compact network that imitates a teacher
twin.safetensors           the upper layers of its backbone with the weights of ImageNet's classification
discriminants.safetensors  five heads: one made with all classes of PASCAL, and one for each fold, made without
                           the classes that the fold tests
whitening.safetensors      mean and principal directions of the twin's layer4
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

from safetensors.torch import load

from repri.features.whitening import Whitening
from repri.models.heads.discriminant import Discriminant
from repri.models.networks.mobile import CompactNet
from repri.models.networks.twin import TwinNet
from repri.runtime.errors import RepriError
from repri.runtime.tensors import load_exactly, read_tensors

__all__ = [
    "DEFAULTS",
    "EMBEDDED",
    "HEADS",
    "HEADS_SHA256",
    "SHA256",
    "TWIN",
    "TWIN_SHA256",
    "WHITENING",
    "WHITENING_SHA256",
    "embedded_head",
    "embedded_path",
    "embedded_twin",
    "embedded_whitening",
]

DEFAULTS = {"default": "all"} | {f"default-fold{fold}": f"fold{fold}" for fold in range(4)}
"""Extractor → its head. The head of ``default-fold0`` was made without labels of the classes that fold 0 of PASCAL-5i
tests."""
EMBEDDED = Path(__file__).with_name("embedded.safetensors")
SHA256 = "82143a1d0ed56f84ec902da954695e64178e8161ba2e26dc98e07f7e16cebcc0"
TWIN = Path(__file__).with_name("twin.safetensors")
TWIN_SHA256 = "b96b9d277c70eb04b9ca76075f854c124c7f1b4fb14fde0b1be2a6355f9ce62a"
HEADS = Path(__file__).with_name("discriminants.safetensors")
HEADS_SHA256 = "4241a35fa0fee992ecd18859f6d5a6e35db0208c6731edc909539dca52e2101d"
WHITENING = Path(__file__).with_name("whitening.safetensors")
WHITENING_SHA256 = "b83166ee33ffec17e3816aa7031a4f06ea1f9bafab724c49a5b23e9675f189c5"


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
    tensors, about = read_tensors(HEADS)
    mine = f"{DEFAULTS[name]}."
    state = {key.removeprefix(mine): value.float() for key, value in tensors.items() if key.startswith(mine)}
    head = Discriminant(json.loads(about["parts"]), len(state["matrix"]))
    load_exactly(head, state, str(HEADS))
    return head, tuple(json.loads(about[DEFAULTS[name]]))


def embedded_twin(network: CompactNet) -> TwinNet:
    """Build the network of the embedded model.

    Args:
        network: Its compact network.

    Returns:
        The network with its twin, whose weights are in half precision in the file.
    """
    _read_published(TWIN, TWIN_SHA256)
    tensors, _ = read_tensors(TWIN)
    twin = TwinNet(network)
    load_exactly(twin.twin, {key: value.float() for key, value in tensors.items()}, str(TWIN))
    return twin


def embedded_whitening(layers: Sequence[str], widths: Sequence[int]) -> Whitening | None:
    """Load the whitening of the twin's ``layer4``, made from PASCAL's training images (``tools/whiten.py``).

    Args:
        layers: Layers of an extractor.
        widths: Their channels.

    Returns:
        The whitening for features of these layers, if ``twin4`` is among them.
    """
    if "twin4" not in layers:
        return None
    tensors = load(_read_published(WHITENING, WHITENING_SHA256))
    first = sum(widths[: list(layers).index("twin4")])
    return Whitening(tensors["mean"].float(), tensors["basis"].float(), first)


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
