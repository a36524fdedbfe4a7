"""From the marks of a project to a support, and from its masks back to the classes of the project."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from repri.data.io.masks import IGNORE

from .marks import implied, label_map
from .project import Project

__all__ = ["Support", "support_of", "with_marks"]


@dataclass(frozen=True, eq=False)
class Support:
    """The annotated images of a project as a segmenter takes them."""

    ids: tuple[str, ...]
    """The K images."""
    maps: tuple[np.ndarray, ...]
    """K arrays [H, W] uint8: 0 background, 1 … N the classes that are marked somewhere, 255 no label."""
    classes: tuple[str, ...]
    """Names of the N classes."""
    labels: tuple[int, ...]
    """The label that each of them has in the project."""

    def project_labels(self, mask: np.ndarray) -> np.ndarray:
        """A mask [H, W] of 0 … N with the labels of the project."""
        return np.array((0, *self.labels), np.uint8)[mask]


def support_of(project: Project) -> Support | None:
    """The support of a project; None as long as no object is marked.

    Args:
        project: The project.

    Returns:
        The images that hold a mark, and their maps. An image without background marks gets an edge of background
        (:func:`repri.web.marks.implied`).
    """
    ids, maps = [], []
    for id in project.annotated:
        labels = label_map(project.annotation(id), *project.size(id))
        if (labels != IGNORE).any():
            ids.append(id)
            maps.append(implied(labels))
    used = sorted({int(n) for labels in maps for n in np.unique(labels)} - {0, IGNORE})
    if not used:
        return None
    table = np.zeros(256, np.uint8)
    table[IGNORE] = IGNORE
    table[used] = np.arange(1, len(used) + 1)
    names = [item.name for item in project.settings.classes]
    return Support(tuple(ids), tuple(table[m] for m in maps), tuple(names[n - 1] for n in used), tuple(used))


def with_marks(project: Project, id: str, mask: np.ndarray) -> np.ndarray:
    """A mask [H, W] in which everything that was drawn by hand stays as it was drawn."""
    annotation = project.annotation(id)
    if annotation.empty:
        return mask
    labels = label_map(annotation, *mask.shape)
    return np.where(labels == IGNORE, mask, labels).astype(np.uint8)
