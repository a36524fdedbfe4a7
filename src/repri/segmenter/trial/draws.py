"""The annotated images of a trial, and which of them are the support and the queries."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from repri.data.io.annotations import AnnotatedImage
from repri.data.io.formats import detect_format, read_annotated
from repri.data.io.images import read_image
from repri.runtime.errors import RepriError
from repri.segmenter.inputs import check_names

from .settings import TrialSettings

__all__ = ["Draw", "Plan", "TrialFolder", "draw_support", "plan_draws", "read_folder", "shots_text"]

SHOWN = 100
"""An image shows a class if more than this many of its pixels belong to the class (or 1 % of a smaller image)."""
WITH_EMPTY = ("folder", "voc")
"""Formats in which an image without any object was annotated, because it has a mask of its own."""


@dataclass(frozen=True, eq=False)
class TrialFolder:
    """The annotated images of one folder, sorted by name. Masks are drawn when they are needed."""

    name: str
    """Name of the folder or file."""
    path: Path
    classes: tuple[str, ...]
    """Names of the classes; class n of a mask is ``classes[n - 1]``."""
    items: tuple[AnnotatedImage, ...]
    ids: dict[str, int]
    """Label → id in the masks; 0 for classes that are not used."""
    pixels: np.ndarray
    """[images, classes + 1] int: pixels of each class in each image, and all pixels of the image."""
    notes: tuple[str, ...] = ()
    """One sentence for each thing that was left out."""

    def names(self, places: Sequence[int]) -> list[str]:
        """Names of the images at these places."""
        return [self.items[i].image.name for i in places]

    def mask(self, place: int) -> np.ndarray:
        """[H, W] the true mask of an image: 0 … N and 255."""
        return self.items[place].ids(self.ids)

    def shown(self, place: int) -> list[str]:
        """Classes of which an image has a pixel."""
        return [name for name, count in zip(self.classes, self.pixels[place, :-1], strict=True) if count > 0]

    @property
    def shows(self) -> np.ndarray:
        """bool [images, classes]: whether an image shows a class. A class that is small everywhere counts wherever it
        has a pixel."""
        counts = self.pixels[:, :-1]
        clear = counts > np.minimum(SHOWN, self.pixels[:, -1:] // 100)
        return np.where(clear.any(0), clear, counts > 0)


def read_folder(path: Path, settings: TrialSettings) -> TrialFolder:
    """Read the annotations of a folder or file.

    Args:
        path: Anything that ``repri segment --support`` takes.
        settings: The format, the folder of the images and the classes.

    Returns:
        The annotated images. Images that cannot be read are left out and noted.
    """
    annotations = read_annotated(path, settings.format, settings.images)
    chosen = annotations.classes if settings.classes is None else check_names(settings.classes)
    if unknown := [name for name in chosen if name not in annotations.classes]:
        raise RepriError(f"{path} has no class {unknown[0]!r}; it has {', '.join(annotations.classes)}.")
    marked = {shape.label for item in annotations for shape in item.shapes}
    used = tuple(name for name in chosen if name in marked)
    if not used:
        raise RepriError(f"{path}: no object is marked in any image.")
    empty = (settings.format or detect_format(path)) in WITH_EMPTY
    items, notes, bare = [], [], 0
    for item in sorted(annotations, key=lambda item: (item.image.stem, str(item.image))):
        if weak := [shape.kind for shape in item.shapes if shape.kind in ("box", "scribble")]:
            raise RepriError(
                f"{path}: {item.image.name} has a {weak[0]}, which does not say exactly which pixels are right: make "
                "masks of it with `repri annotate` and correct them."
            )
        if not item.shapes and not empty:
            bare += 1
            continue
        try:
            read_image(item.image)
        except RepriError as error:
            notes.append(f"{path}: an image was left out, because it cannot be read: {error}")
            continue
        items.append(item)
    if bare:
        notes.append(f"{path}: images without any shape were left out, because nobody may have annotated them: {bare}.")
    if len(items) < 2:
        raise RepriError(
            f"{path} has {len(items)} annotated image{'s' * (len(items) != 1)}, and a trial needs at least 2: one for "
            "the support and one to segment."
        )
    ids = {name: used.index(name) + 1 if name in used else 0 for name in annotations.classes}
    pixels = np.array([_pixels(item.ids(ids), len(used)) for item in items])
    name = path.resolve().name or str(path)
    return TrialFolder(name, path, used, tuple(items), ids, pixels, tuple(notes))


def _pixels(mask: np.ndarray, classes: int) -> list[int]:
    """Pixels of each class, and all pixels."""
    return [*(int((mask == n).sum()) for n in range(1, classes + 1)), mask.size]


@dataclass(frozen=True)
class Draw:
    """Images that were drawn, by their places in the folder."""

    seed: int
    support: tuple[int, ...]
    queries: tuple[int, ...]


def draw_support(shows: np.ndarray, shots: int, seed: int, queries: int) -> Draw:
    """Draw a support and queries.

    The images are shuffled. Those that show a class which is not yet shown often enough are the support, and the first
    of the others are the queries.

    Args:
        shows: bool [images, classes]: whether an image shows a class.
        shots: How many images of the support show each class, at least.
        seed: Seed of the draw.
        queries: Number of queries, at most.

    Returns:
        The draw.

    Example:
        >>> draw_support(np.ones((5, 1), bool), shots=2, seed=0, queries=2)
        Draw(seed=0, support=(2, 1), queries=(0, 4))
    """
    order = list(range(len(shows)))
    random.Random(seed).shuffle(order)
    count, support = np.zeros(shows.shape[1], int), []
    for i in order:
        if (shows[i] & (count < shots)).any():
            support.append(i)
            count += shows[i]
        if (count >= shots).all():
            break
    taken = frozenset(support)
    return Draw(seed, tuple(support), tuple(i for i in order if i not in taken)[:queries])


@dataclass(frozen=True)
class Plan:
    """The draws of one folder."""

    draws: dict[int, tuple[Draw, ...]]
    """Number of shots → its draws."""
    left_out: dict[int, str]
    """Number of shots → the reason why it cannot be tried."""


def plan_draws(folder: TrialFolder, settings: TrialSettings) -> Plan:
    """Draw the supports for each number of shots that the images allow.

    Args:
        folder: The annotated images.
        settings: Shots, draws, queries and seed.

    Returns:
        The draws. It is an error if no number of shots is possible.
    """
    shows = folder.shows
    rarest = int(shows.sum(0).argmin())
    enough = int(shows[:, rarest].sum())
    draws, left_out = {}, {}
    for shots in sorted(settings.shots):
        seeds = range(settings.seed, settings.seed + settings.draws)
        drawn = tuple(draw_support(shows, shots, seed, settings.queries) for seed in seeds)
        if enough < shots:
            only = f"only {enough} image{'s show' if enough > 1 else ' shows'} {folder.classes[rarest]}"
            left_out[shots] = only if enough < len(shows) else f"there are only {enough} annotated images"
        elif not all(draw.queries for draw in drawn):
            left_out[shots] = f"no image would remain as a query ({len(shows)} are annotated)"
        else:
            draws[shots] = drawn
    if not draws:
        fewest = min(left_out)
        raise RepriError(
            f"{folder.path} cannot be tried with {shots_text(fewest)}: {left_out[fewest]}; annotate more images or "
            "choose fewer with --shots."
        )
    return Plan(draws, left_out)


def shots_text(number: int) -> str:
    """A number of shots in words: ``1 shot``, ``2 shots``."""
    return f"{number} shot{'s' * (number != 1)}"
