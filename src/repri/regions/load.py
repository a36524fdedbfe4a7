"""Region models by name."""

from __future__ import annotations

import threading
from functools import lru_cache
from pathlib import Path

from repri.models.weights.pairs import PAIRS, pair_folder, pair_in
from repri.runtime.errors import RepriError

from .model import RegionModel

__all__ = ["load_regions", "regions_name"]

_LOCK = threading.Lock()


def regions_name(name: str | Path | None = None) -> str:
    """The region model that a name stands for; a mistake is an error that names the command to run.

    Args:
        name: A folder with an encoder and a decoder, a name in the cache, ``hub:…``, or None for the first known model
            whose weights are in the cache.

    Returns:
        The name, with None resolved.
    """
    if name is None:
        here = [known for known in PAIRS if pair_in(pair_folder(known)) is not None]
        if not here:
            raise RepriError(
                "There is no region model in the cache yet: run repri weights get sam2-tiny (144 MB), "
                "or name a model with regions."
            )
        return here[0]
    if str(name).startswith("hub:"):
        return str(name)
    if _folder(name) is None:
        if str(name) in PAIRS:
            raise RepriError(f"The region model {name} is not here yet: run repri weights get {name}")
        raise RepriError(
            f"There is no region model {str(name)!r}: give a folder with encoder.onnx and decoder.onnx, "
            f"hub:NAME, or one of {', '.join(PAIRS)}."
        )
    return str(name)


def load_regions(name: str | Path | None = None) -> RegionModel:
    """Open a region model.

    Args:
        name: ``sam2-tiny`` or ``mobile-sam`` (see ``repri weights list``), a folder with ``encoder.onnx`` and
            ``decoder.onnx``, or ``hub:facebook/sam2.1-hiera-tiny``. None takes the first one whose weights are in the
            cache.

    Returns:
        The model; the same object again for the same name.

    Example:
        >>> load_regions("sam9")
        Traceback (most recent call last):
        repri.runtime.errors.RepriError: There is no region model 'sam9': give a folder with encoder.onnx and ...
    """
    with _LOCK:  # two threads may want it at once
        return _opened(regions_name(name))


@lru_cache(2)
def _opened(name: str) -> RegionModel:
    if name.startswith("hub:"):
        from .hub import load_hub

        return load_hub(name.removeprefix("hub:"))
    from .onnx import OnnxRegions

    folder = _folder(name)
    assert folder is not None
    pair = pair_in(folder)
    assert pair is not None
    return OnnxRegions(*pair, name=name)


def _folder(name: str | Path) -> Path | None:
    """The folder of a region model, or None if there is none."""
    folders = [Path(name).expanduser()] + ([pair_folder(str(name))] if "/" not in str(name) else [])
    return next((folder for folder in folders if pair_in(folder) is not None), None)
