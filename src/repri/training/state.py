"""A run on disk: ``last.pt`` to go on from, ``config.yaml``, ``log.csv``; each is written whole or not at all."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
import yaml

from repri.runtime.errors import RepriError
from repri.runtime.files import atomic
from repri.runtime.settings import as_mapping

from .settings import TrainSettings

__all__ = ["Progress", "load_state", "save_config", "save_state", "write_log"]

FORMAT = "repri-training-4"
FORMATS = "repri-training-"
"""With what the names of all formats begin."""
HARMLESS = ("output", "data.root", "data.skip_unreadable", "run.save_minutes")
"""Settings that may differ when a run goes on."""


@dataclass
class Progress:
    """Where a run is. What comes next, random numbers included, follows from it and the settings."""

    epoch: int = 0
    """Number of epochs that are done."""
    step: int = 0
    """Number of steps of the present epoch that are done."""
    best: float = float("-inf")
    """Best score so far."""
    rows: list[dict[str, float]] = field(default_factory=list)
    """The log, one row for each epoch."""
    losses: list[float] = field(default_factory=list)
    """Losses of the steps of the present epoch."""


def save_state(
    folder: Path,
    settings: TrainSettings,
    identity: str,
    progress: Progress,
    model: dict[str, Any],
    optimiser: dict[str, Any],
) -> None:
    """Write ``last.pt``.

    Args:
        folder: Folder of the run.
        settings: Settings of the run.
        identity: Hash of what is trained on (``Plan.identity``).
        progress: Where the run is.
        model: State of the network.
        optimiser: State of the optimiser.
    """
    content = {
        "format": FORMAT,
        "config": json.dumps(as_mapping(settings)),
        "examples": identity,
        "progress": asdict(progress),
        "model": model,
        "optimiser": optimiser,
    }
    with atomic(folder / "last.pt") as temporary, temporary.open("wb") as file:
        try:
            torch.save(content, file)
        except RuntimeError as error:  # torch raises its own error over that of a full disk
            if isinstance(error.__context__, OSError):
                raise error.__context__ from None
            raise


def load_state(folder: Path, settings: TrainSettings, identity: str) -> tuple[Progress, dict[str, Any], dict[str, Any]]:
    """Read ``last.pt`` of a run that had the same settings and was trained on the same images.

    Args:
        folder: Folder of the run.
        settings: Settings of the run that is to go on.
        identity: Hash of what it is trained on.

    Returns:
        Progress, state of the network, state of the optimiser.
    """
    path = folder / "last.pt"
    if not path.is_file():
        raise RepriError(f"There is nothing to resume: {path} does not exist.")
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
        version = content["format"]
        if version == FORMAT:
            before = json.loads(content["config"])
            progress, trained_on = Progress(**content["progress"]), content["examples"]
        elif not str(version).startswith(FORMATS):
            raise RepriError(f"its format is {version!r}")
    except Exception as error:  # torch raises many kinds of errors for a damaged file
        if isinstance(error, MemoryError):
            raise
        raise RepriError(f"{path} is damaged or no checkpoint of `repri train` ({str(error)[:80]}).") from None
    if version != FORMAT:
        raise RepriError(f"{path} was written by another version of repri, and cannot be resumed: start the run anew.")
    _check_same(before, settings, path)
    if trained_on != identity:
        raise RepriError(
            f"{path} was trained on other images, or with another frozen network or teacher, than those that are here: "
            "resume with the same ones."
        )
    return progress, content["model"], content["optimiser"]


def _check_same(before: Mapping[str, Any], settings: TrainSettings, path: Path) -> None:
    """Raise an error for the first setting that differs; one that came later had its default before."""
    old = dict(_flat(as_mapping(TrainSettings()))) | dict(_flat(before))
    for name, now in _flat(as_mapping(settings)):
        if name not in HARMLESS and old[name] != now:
            raise RepriError(
                f"{path} was trained with {name}={old[name]!r}, not {now!r}: resume with the same settings, or start "
                "in another folder."
            )


def _flat(values: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted names and values of a nested mapping."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{path}{name}.")
        else:
            yield f"{path}{name}", value


def save_config(folder: Path, settings: TrainSettings) -> None:
    """Write ``config.yaml``, with which the run can be repeated."""
    with atomic(folder / "config.yaml") as temporary:
        temporary.write_text(yaml.safe_dump(as_mapping(settings), sort_keys=False, allow_unicode=True))


def write_log(folder: Path, rows: list[dict[str, float]]) -> None:
    """Write ``log.csv``, one row for each epoch."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[-1]), restval="", lineterminator="\n")  # older rows may have fewer columns
    writer.writeheader()
    writer.writerows(rows)
    with atomic(folder / "log.csv") as temporary:
        temporary.write_text(text.getvalue())
