"""A run on disk: ``last.pt`` to go on from, ``log.csv``, the best network; all written whole or not at all."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
import yaml

from repri.runtime.files import atomic

from .config import TrainConfig

__all__ = ["Progress", "load_state", "remove_leftovers", "save_config", "save_state", "write_log"]

FORMAT = "repri-training-3"
HARMLESS = ("output", "root", "save_minutes", "skip_unreadable")
"""Settings that may differ when a run goes on."""


@dataclass
class Progress:
    """Where a run is. What comes next, random numbers included, follows from it and the settings."""

    epoch: int = 0
    step: int = 0
    """Of the epoch; the next one to do."""
    best: float = float("-inf")
    rows: list[dict[str, float]] = field(default_factory=list)
    """The log, one row per epoch."""
    losses: list[float] = field(default_factory=list)
    """Of the steps of this epoch."""


def save_state(
    folder: Path,
    config: TrainConfig,
    examples: str,
    progress: Progress,
    model: dict[str, Any],
    optimiser: dict[str, Any],
) -> None:
    """``examples``: a hash of what is trained on."""
    content = {
        "format": FORMAT,
        "config": json.dumps(asdict(config)),
        "examples": examples,
        "progress": asdict(progress),
        "model": model,
        "optimiser": optimiser,
    }
    with atomic(folder / "last.pt") as temporary, temporary.open("wb") as file:
        try:
            torch.save(content, file)
        except RuntimeError as error:  # torch's own, raised over what the file had to say (a full disk)
            if isinstance(error.__context__, OSError):
                raise error.__context__ from None
            raise


def load_state(folder: Path, config: TrainConfig, examples: str) -> tuple[Progress, dict[str, Any], dict[str, Any]]:
    """Progress, network and optimiser of a run, which must have had the same settings."""
    path = folder / "last.pt"
    if not path.is_file():
        raise ValueError(f"there is nothing to resume: {path} does not exist")
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
        if content["format"] != FORMAT:
            raise ValueError(f"its format is {content['format']!r}")
        before = json.loads(content["config"])
        progress, _ = Progress(**content["progress"]), content["examples"]
    except Exception as error:  # torch raises a whole family of errors for a damaged file
        if isinstance(error, MemoryError):
            raise
        raise ValueError(f"{path} is damaged or no checkpoint of `repri train` ({str(error)[:80]})") from None
    before = json.loads(json.dumps(asdict(TrainConfig()))) | before  # settings that came later had their default
    now = json.loads(json.dumps(asdict(config)))
    for name in now:
        if name not in HARMLESS and before[name] != now[name]:
            raise ValueError(
                f"{path} was trained with {name}={before[name]!r}, not {now[name]!r}: "
                "resume with the same settings, or start in another folder"
            )
    if content["examples"] != examples:
        raise ValueError(
            f"{path} was trained on other images, or with another frozen network or teacher, than those that are here: "
            "resume with the same ones"
        )
    return progress, content["model"], content["optimiser"]


def remove_leftovers(folder: Path) -> None:
    """What a run that was killed while it wrote has left."""
    for path in folder.glob(".[0-9]*-[0-9]*.*"):
        path.unlink(missing_ok=True)


def save_config(folder: Path, config: TrainConfig) -> None:
    values = {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(config).items()}
    with atomic(folder / "config.yaml") as temporary:
        temporary.write_text(yaml.safe_dump(values, sort_keys=False, allow_unicode=True))


def write_log(folder: Path, rows: list[dict[str, float]]) -> None:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[-1]), restval="", lineterminator="\n")  # older rows may have fewer
    writer.writeheader()
    writer.writerows(rows)
    with atomic(folder / "log.csv") as temporary:
        temporary.write_text(text.getvalue())
