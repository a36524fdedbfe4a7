"""Region models that are known by name: an encoder and a decoder as two files in one folder of the cache."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from repri.runtime.download import Progress, fetch
from repri.runtime.errors import RepriError
from repri.runtime.files import new_folder

from .known import weights_folder

__all__ = ["PAIRS", "KnownPair", "fetch_pair", "import_pair", "pair_folder", "pair_in"]

SUFFIXES = (".onnx", ".ort")
"""Endings of files that onnxruntime opens."""


class KnownPair(NamedTuple):
    """The two files of a region model."""

    name: str
    """Name in commands and settings, and of the folder in the cache."""
    files: tuple[tuple[str, str, str], ...]
    """Address, sha256 and name in the folder of each file; none if they must be downloaded by hand."""
    page: str
    """Page of the project."""
    megabytes: float
    """Size of both files."""
    licence: str
    """Licence of the weights."""
    about: str
    """A few words on the model."""


_SAM2 = "https://huggingface.co/g-ronimo/sam2-tiny/resolve/main/sam2_hiera_tiny_"
_ENTRIES = (
    KnownPair(
        "sam2-tiny",
        (
            (
                f"{_SAM2}encoder.with_runtime_opt.ort",
                "54e9ee80bd43e36da6c7cd33031a525bb1d70577eadb31190a28999250b13dfe",
                "encoder.ort",
            ),
            (
                f"{_SAM2}decoder_pr1.onnx",
                "4a4c8a8a53d9722834b66d8ced88770e2cc783e367965ba62a13be3ab5f1ba89",
                "decoder.onnx",
            ),
        ),
        "https://github.com/facebookresearch/sam2",
        144.3,
        "Apache",
        "regions: SAM 2, Hiera-tiny",
    ),
    KnownPair(
        "mobile-sam", (), "https://github.com/ChaoningZhang/MobileSAM", 42.5, "Apache", "regions: MobileSAM as ONNX"
    ),
)
PAIRS = {entry.name: entry for entry in _ENTRIES}
"""Name → region model."""


def pair_folder(name: str) -> Path:
    """Folder of a region model in the cache."""
    return weights_folder() / name


def pair_in(folder: Path) -> tuple[Path, Path] | None:
    """The encoder and the decoder in a folder, or None if one of them is missing."""
    encoder, decoder = (
        next((path for suffix in SUFFIXES if (path := folder / f"{part}{suffix}").is_file()), None)
        for part in ("encoder", "decoder")
    )
    return None if encoder is None or decoder is None else (encoder, decoder)


def fetch_pair(name: str, progress: Callable[[str], Progress] | None = None) -> Path:
    """Download a known region model into the cache; an interrupted download goes on.

    Args:
        name: A name in :data:`PAIRS`.
        progress: Given the name of a file, it returns what is called as its bytes arrive.

    Returns:
        The folder.
    """
    entry, folder = PAIRS[name], pair_folder(name)
    if not entry.files and pair_in(folder) is None:
        raise RepriError(
            f"{name} has no direct link: export its encoder and decoder to ONNX as {entry.page} describes, put them as "
            f"encoder.onnx and decoder.onnx into one folder, then run repri weights import FOLDER {name}"
        )
    for url, digest, file in entry.files:
        fetch(url, folder / file, digest, None if progress is None else progress(file))
    return folder


def import_pair(source: Path, name: str) -> Path:
    """Copy a folder with an encoder and a decoder into the cache.

    Args:
        source: The folder.
        name: Name of the region model from now on.

    Returns:
        The folder in the cache.
    """
    pair = pair_in(source)
    if pair is None:
        raise RepriError(f"{source} holds no region model: it must hold encoder.onnx and decoder.onnx (or .ort).")
    folder = pair_folder(name)
    with new_folder(folder) as temporary:
        for path in pair:
            shutil.copyfile(path, temporary / path.name)
    return folder
