"""Images to try the page with."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from repri.data.datasets.scenes import make_task

from .project import Project
from .record import png

__all__ = ["add_examples", "photographs"]

PLACES = ("experiments/photos/*.jpg", "data/datasets/bundled/*/*/images/*.jpg")
"""Where photographs lie in the package."""
SCENES, SIDE = 8, 192
"""Number of the generated scenes, and their height and width."""


def photographs() -> list[Path]:
    """The photographs that come with the package."""
    root = Path(__file__).parents[1]
    return sorted(path for place in PLACES for path in root.glob(place))


def add_examples(project: Project) -> int:
    """Add the photographs of the package, and generated scenes that show one texture; returns their number."""
    files = photographs()
    for path in files:
        project.add(path.name, path.read_bytes())
    task = make_task(0, shots=SCENES - 1, size=SIDE)
    for n, scene in enumerate([*task.support, task.query], 1):
        image = (scene.movedim(0, -1) * 255).round().byte().numpy()
        project.add(f"scene {n}.png", png(np.ascontiguousarray(image)))
    return len(files) + SCENES
