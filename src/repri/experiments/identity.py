"""What decides a result, so that an equal question is answered only once."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from repri.data.datasets.dataset import Dataset
from repri.evaluation.results import FORMAT
from repri.inference import InferenceConfig

__all__ = ["data_files", "identity_of", "key_of", "result_identity"]

DIGITS = 16
"""Hexadecimal digits of a key and of a fingerprint in a result."""
DATA = ("name", "split", "test_data", "min_pixels")
DRAWN = ("runs", "tasks", "seed", "sampling", "task_list")
OPTIONS = ("layers", "combine", "shifts", "size")


def identity_of(config: Mapping[str, Any], fold: int, fingerprint: str, images: int | None = None) -> dict[str, Any]:
    """Everything that decides the result of one fold, apart from the files of the data set.

    Args:
        config: The settings of a result, nested as in ``EvaluationSettings``, with the method's own settings.
        fold: The fold.
        fingerprint: Fingerprint of its extractor.
        images: Images of each class from which tasks are drawn, if not all.

    Returns:
        Plain values; :func:`key_of` makes a short key of them.
    """
    method = config["method"]
    return {
        "format": FORMAT,
        "data": {name: config["data"].get(name) for name in DATA},
        "tasks": {name: config["tasks"].get(name) for name in DRAWN} | {"images": images},
        "shots": config["tasks"]["shots"],
        "fold": int(fold),
        "protocol": config["protocol"],
        "method": method["name"],
        "settings": _settings(method["settings"]),
        "extractor": {name: config["extractor"].get(name) for name in OPTIONS} | {"fingerprint": fingerprint[:DIGITS]},
        "refine": config["refine"],
        "precision": config["precision"],
    }


def result_identity(result: Mapping[str, Any], fold: str) -> dict[str, Any] | None:
    """The identity of a fold of a result file; None for files of former versions, which do not say enough."""
    config = result.get("config", {})
    if not isinstance(config.get("method"), dict) or "refine" not in config:
        return None
    fingerprint = result["extractor"][fold]["fingerprint"]
    return identity_of(config, int(fold), fingerprint, result.get("cell", {}).get("images"))


def key_of(identity: Mapping[str, Any]) -> str:
    """A short key of an identity.

    Example:
        >>> key_of({"a": (1, 2), "b": None}) == key_of({"b": None, "a": [1, 2]})
        True
    """
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:DIGITS]


def data_files(dataset: Dataset) -> str:
    """A short hash of the names and sizes of a data set's files, wherever its folder is."""
    digest = hashlib.sha256()
    for sample in dataset.samples:
        sizes = [path.stat().st_size for path in (sample.image, sample.mask) if path is not None]
        digest.update(f"{sample.id} {sizes}\0".encode())
    return digest.hexdigest()[:DIGITS]


def _settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings without those that have the default of every preset, so that a new setting leaves old results valid."""
    plain = asdict(InferenceConfig()) | {"delta": 0.0}
    return {name: value for name, value in settings.items() if name not in plain or plain[name] != value}
