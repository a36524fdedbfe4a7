"""What decides a result: kept in the output folder and in every mask, so that a run goes on only with its own results.

``run.json`` holds the settings, the version, and hashes of the support and of the extractor. A mask holds the hash of
all this, and size, time and hash of the image that it belongs to.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from repri.features.extractor import FeatureExtractor
from repri.runtime.errors import RepriError
from repri.runtime.files import atomic
from repri.runtime.reading import read_json, short
from repri.runtime.settings import as_mapping

from .settings import SegmentSettings
from .shots import AnnotatedShots

__all__ = ["QueryFile", "facts_of", "identity_of", "other_run", "query_file", "write_facts"]

FILE, FORMAT = "run.json", "repri-segment-1"
HARMLESS = ("query", "output", "batch", "write")
"""Settings that do not change a mask."""


class QueryFile(NamedTuple):
    """An image file as it was when it was segmented."""

    size: int
    """In bytes."""
    time: int
    """Time of its last change, in nanoseconds."""
    digest: str
    """Hash of its content."""

    def is_still(self, path: Path) -> bool:
        """Whether a file has the same content; its time may have changed, as copying does."""
        try:
            stat = path.stat()
            if stat.st_size != self.size:
                return False
            return stat.st_mtime_ns == self.time or _digest(path) == self.digest
        except OSError:
            return False


def query_file(path: Path) -> QueryFile:
    """Size, time and hash of an image file.

    Args:
        path: The file.

    Returns:
        Its facts, as they are now.
    """
    stat = path.stat()
    return QueryFile(stat.st_size, stat.st_mtime_ns, _digest(path))


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:32] if hasattr(hashlib, "file_digest") else _slow(file)


def _slow(file: Any) -> str:
    """As ``hashlib.file_digest`` of later Pythons."""
    digest = hashlib.sha256()
    while block := file.read(1 << 20):
        digest.update(block)
    return digest.hexdigest()[:32]


def facts_of(settings: SegmentSettings, shots: AnnotatedShots, extractor: FeatureExtractor) -> dict[str, Any]:
    """What decides the masks of a run.

    Args:
        settings: The settings of the run.
        shots: The support.
        extractor: The extractor.

    Returns:
        Plain values.
    """
    from repri import __version__

    chosen = {name: value for name, value in as_mapping(settings).items() if name not in HARMLESS}
    del chosen["support"]  # its content counts, not its place
    digest = hashlib.sha256(repr(shots.classes).encode())
    for image, mask in zip(shots.images, shots.maps, strict=True):
        for array in (image, mask):
            digest.update(f"{array.dtype} {array.shape}".encode())
            digest.update(np.ascontiguousarray(array).tobytes())
    facts = {
        "version": __version__,
        "classes": list(shots.classes),
        "support": digest.hexdigest()[:32],
        "extractor identity": extractor.identity,
        "settings": chosen,
    }
    if settings.present is not None:
        facts["present"] = _digest(Path(settings.present).expanduser())
    file = Path(settings.method.weights or settings.method.name).expanduser()
    file = file / "method.safetensors" if file.is_dir() else file
    return facts | {"method file": _digest(file)} if file.suffix == ".safetensors" and file.is_file() else facts


def identity_of(facts: Mapping[str, Any]) -> str:
    """The hash of what decides the masks, which every mask carries."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:32]


def write_facts(folder: Path, facts: Mapping[str, Any]) -> None:
    """Write ``run.json``."""
    with atomic(folder / FILE) as temporary:
        temporary.write_text(json.dumps({"format": FORMAT} | dict(facts), indent=1) + "\n")


def other_run(folder: Path, facts: Mapping[str, Any]) -> str | None:
    """Tell how the run that is in a folder differs from this one.

    Args:
        folder: The output folder.
        facts: What decides the masks of this run.

    Returns:
        A sentence, or None if nothing differs, or if the folder does not say what made it.
    """
    path = folder / FILE
    if not path.is_file():
        return None
    try:
        before = read_json(path)
    except RepriError:
        return None  # damaged: each mask says what made it
    if not isinstance(before, dict) or before.get("format") != FORMAT:
        return f"{path} was not written by `repri segment`: choose another output folder."
    if before.get("classes") != facts["classes"]:
        listed = [", ".join(map(str, one)) for one in (before.get("classes") or (), facts["classes"])]
        return f"{folder} has the classes {listed[0]}, not {listed[1]}: choose another output folder."
    old, new = dict(_flat(before)), dict(_flat(facts))
    what = {"support": "another support", "extractor identity": "another extractor", "method file": "another training"}
    for name in new:
        if old.get(name) != new[name]:
            other = f"{name.removeprefix('settings.')}={short(old.get(name))}, not {short(new[name])}"
            made = what.get(name, other)
            return f"{folder} was made with {made}: go on with what it was made with, or choose another folder."
    return None


def _flat(values: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted names and values of a nested mapping."""
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{path}{name}.")
        else:
            yield f"{path}{name}", value
