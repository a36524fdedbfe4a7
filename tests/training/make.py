"""Settings of small runs: a narrow head on fixed filters, on generated scenes."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from repri.data.datasets.scenes import make_dataset
from repri.runtime.settings import parse
from repri.training import Plan, TrainSettings
from repri.training.state import Progress

__all__ = ["DISCRIMINANT", "SMALL", "Finished", "draw_scenes", "nested", "settings_from"]

SMALL = {
    "network.name": "filters",
    "network.freeze": "backbone",
    "head.name": "conv",
    "head.width": 8,
    "data.size": 64,
    "optimiser.epochs": 1,
    "optimiser.batch": 4,
    "optimiser.lr": 0.05,
}
DISCRIMINANT = {"head.name": "discriminant", "head.width": 12, "data.size": 96}


class Finished(NamedTuple):
    """A run that other tests look at."""

    plan: Plan
    progress: Progress

    @property
    def folder(self) -> Path:
        return self.plan.folder

    @property
    def model(self) -> str:
        return str(self.plan.folder / "model.safetensors")


def draw_scenes(folder: Path) -> Path:
    """Draw 24 training and 8 validation scenes of eight textures; returns the file that describes them."""
    make_dataset(folder / "data", train=24, val=8)
    return folder / "data" / "data.yaml"


def nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """``{"a.b": 1}`` → ``{"a": {"b": 1}}``."""
    result: dict[str, Any] = {}
    for path, value in values.items():
        *sections, name = path.split(".")
        inner = result
        for section in sections:
            inner = inner.setdefault(section, {})
        inner[name] = value
    return result


def settings_from(values: Mapping[str, Any]) -> TrainSettings:
    return parse(TrainSettings, nested(values), "here")
