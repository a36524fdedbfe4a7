"""Images to try the page with."""

from __future__ import annotations

import numpy as np

from repri.data.datasets.scenes import make_task
from repri.experiments.demo import photographs

from .project import Project
from .record import png

__all__ = ["add_examples"]

SCENES = (0, 12)
"""Seed and number of the generated scenes."""


def add_examples(project: Project) -> int:
    """Add the photographs of the demo, and generated scenes that show one texture; returns their number."""
    images: dict[str, np.ndarray] = {}
    for pair in photographs():
        for item in pair:
            if not any(item.image.shape == other.shape and (item.image == other).all() for other in images.values()):
                images[f"photograph {len(images) + 1}.png"] = item.image
    seed, count = SCENES
    task = make_task(seed, shots=count - 1)
    for n, scene in enumerate([*task.support, task.query], 1):
        images[f"scene {n:02}.png"] = (scene.movedim(0, -1) * 255).round().byte().numpy()
    for name, image in images.items():
        project.add(name, png(np.ascontiguousarray(image)))
    return len(images)
