"""Tensors in files: safe reading, atomic writing, and loading without a key left over."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import torch
import torch.nn as nn
from torch import Tensor

from .errors import RepriError
from .files import atomic
from .limits import check_cost
from .reading import check_regular

__all__ = ["check_exactly", "load_exactly", "read_tensors", "write_tensors"]

MOST_RATIO, SMALL = 8, 64_000_000
"""Largest ratio of the content to its file, and the bytes up to which the ratio does not matter."""


def read_tensors(path: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """Read a weights file as it is, without executing code from it.

    Args:
        path: A safetensors file, recognised by its content too, or a pickle of tensors that ``torch.save`` wrote.

    Returns:
        The content by key, and the metadata of a safetensors file.
    """
    if not path.exists():
        raise RepriError(f"There is no weights file at {path}.")
    check_regular(path)
    _check_packing(path)
    try:
        with path.open("rb") as file:
            start = file.read(9)
        if path.suffix == ".safetensors" or start[8:] == b"{":  # a length of 8 bytes, then JSON
            from safetensors import safe_open

            with safe_open(path, framework="pt") as file:
                return {key: file.get_tensor(key) for key in file.keys()}, file.metadata() or {}  # noqa: SIM118
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # both libraries raise many kinds of errors for a damaged file
        if isinstance(error, MemoryError):
            raise
        raise RepriError(
            f"{path} cannot be read as weights: it is damaged, no weights file, or a pickle with more than tensors."
        ) from error
    if not isinstance(content, dict):
        raise RepriError(f"{path} holds a {type(content).__name__}, not a state dict.")
    _check_expansion(path, content)
    return content, {}


def _check_packing(path: Path) -> None:
    """Refuse an archive that unpacks to far more than its size; torch does not compress its files."""
    packed = path.stat().st_size
    check_cost("REPRI_MAX_WEIGHTS_GB", packed / 1e9, str(path))
    if not zipfile.is_zipfile(path):
        return
    try:
        with zipfile.ZipFile(path) as archive:
            unpacked = sum(member.file_size for member in archive.infolist())
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        return  # torch says what is wrong with it
    _check_ratio(path, packed, unpacked)


def _check_expansion(path: Path, content: dict[Any, Any]) -> None:
    """Refuse tensors that repeat a few stored values many times over."""
    inner = content.get("state_dict")
    every = [*content.values(), *(inner.values() if isinstance(inner, dict) else ())]
    size = sum(value.numel() * value.element_size() for value in every if isinstance(value, Tensor))
    _check_ratio(path, path.stat().st_size, size)


def _check_ratio(path: Path, packed: int, unpacked: int) -> None:
    if unpacked > max(MOST_RATIO * packed, SMALL):
        raise RepriError(
            f"{path} has {packed / 1e6:.1f} MB and unpacks to {unpacked / 1e6:,.0f} MB, more than {MOST_RATIO} times "
            "as much: it is not a weights file as torch writes it."
        )


def write_tensors(path: Path, tensors: dict[str, Tensor], metadata: dict[str, str]) -> None:
    """Write a safetensors file, whole or not at all, with the permissions that any other new file has."""
    from safetensors.torch import save

    content = save({key: value.detach().cpu().contiguous() for key, value in tensors.items()}, metadata)
    with atomic(path) as temporary:
        temporary.write_bytes(content)


def load_exactly(model: nn.Module, state: dict[str, Tensor], source: str) -> None:
    """Load every key of a model and no other.

    Args:
        model: The module whose weights are set.
        state: Tensors by key.
        source: Where the tensors come from, for the message that lists missing, unknown and misshaped keys.
    """
    model.load_state_dict(check_exactly(model, state, source), strict=True)


def check_exactly(model: nn.Module, state: dict[str, Tensor], source: str) -> dict[str, Tensor]:
    """Raise an error unless tensors have the keys and shapes of a model, which may be one without memory.

    Args:
        model: The module.
        state: Tensors by key.
        source: Where the tensors come from, for the message that lists missing, unknown and misshaped keys.

    Returns:
        The tensors, with those that do not matter and may be missing.
    """
    wanted = model.state_dict()
    # Old files do not count batches, and nothing here uses the count.
    counters = {k: v for k, v in wanted.items() if k.endswith(".num_batches_tracked") and k not in state}
    state = state | counters
    problems = []
    for label, keys in (("missing", wanted.keys() - state.keys()), ("unknown", state.keys() - wanted.keys())):
        if keys:
            problems.append(f"{len(keys)} {label} ({_some(sorted(keys))})")
    shapes = [
        f"{k}: {list(state[k].shape)} instead of {list(wanted[k].shape)}"
        for k in sorted(wanted.keys() & state.keys())
        if state[k].shape != wanted[k].shape
    ]
    if shapes:
        problems.append(f"{len(shapes)} of another shape ({_some(shapes)})")
    if problems:
        raise RepriError(f"{source} does not fit {type(model).__name__}: keys {'; '.join(problems)}.")
    return state


def _some(items: list[str], most: int = 6) -> str:
    """The first items of a list, and the number of the others."""
    return ", ".join(items[:most]) + (f" and {len(items) - most} more" if len(items) > most else "")
