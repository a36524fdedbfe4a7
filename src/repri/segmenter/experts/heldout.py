"""Parts of the support that are segmented by the rest, to compare settings.

With several annotated images, each is segmented by others. With a single one, each half of it is segmented by the other
half, on a varied copy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from repri.inference.labels import IGNORE

from .copies import resized_mask, varied

__all__ = ["HeldOut", "held_out"]

FOLDS = 3
"""Most parts into which a support is divided."""
OF_FOLD = 2
"""Most images of a part that are segmented."""


class HeldOut(NamedTuple):
    """A part of the support that is segmented by the rest."""

    fold: int
    """Parts of one fold know the same."""
    known: tuple[int, ...]
    """Places of the images that are known."""
    maps: tuple[np.ndarray, ...]
    """What is known of them."""
    image: np.ndarray
    """The image that is segmented."""
    place: int | None
    """Its place in the support; None for a varied copy."""
    truth: np.ndarray
    """[H, W] ids, 255 where nothing is compared."""
    classes: tuple[int, ...]
    """Classes that are known; the maps number them 1, 2, …"""


def held_out(images: Sequence[np.ndarray], maps: Sequence[np.ndarray], classes: int) -> Iterator[HeldOut]:
    """Parts of the support and what is known when they are segmented."""
    if len(images) == 1:
        copies = varied(images[0], 2, seed=99)
        for half, (copy, (known, truth)) in enumerate(zip(copies, _halves(maps[0]), strict=True)):
            part = HeldOut(half, (0,), (known,), copy, None, resized_mask(truth, copy.shape[:2]), ())
            yield from _with_classes(part, classes)
        return
    folds = min(FOLDS, len(images))
    for fold in range(folds):
        known = tuple(k for k in range(len(images)) if k % folds != fold)
        for place in range(fold, len(images), folds)[:OF_FOLD]:
            part = HeldOut(fold, known, tuple(maps[k] for k in known), images[place], place, maps[place], ())
            yield from _with_classes(part, classes)


def _with_classes(part: HeldOut, classes: int) -> Iterator[HeldOut]:
    """The part with the classes that its known maps show, numbered anew; nothing if there are none."""
    if classes == 1:
        soft = [((m > 0) & (m != IGNORE)).any() and (m == 0).any() for m in part.maps]
        truth = np.where(part.truth == IGNORE, IGNORE, part.truth > 0.5).astype(np.uint8)
        if any(soft):
            yield part._replace(truth=truth, classes=(1,))
        return
    shown = tuple(n for n in range(1, classes + 1) if any((m == n).any() for m in part.maps))
    table = np.full(256, IGNORE, np.uint8)
    table[0] = 0
    for new, old in enumerate(shown, 1):
        table[old] = new
    if shown:
        yield part._replace(maps=tuple(table[m] for m in part.maps), truth=table[part.truth], classes=shown)


def _halves(mask: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Two masks that know one half of the object and compare the other: the image is cut where the object has as much
    on either side, across its longer extent."""
    rows, columns = np.nonzero((mask > 0) & (mask != IGNORE))
    across = np.ptp(rows) < np.ptp(columns)
    cut = int(np.median(columns if across else rows)) + 1
    first = np.zeros(mask.shape, bool)
    first[(slice(None), slice(cut)) if across else slice(cut)] = True
    return [(np.where(side, mask, IGNORE), np.where(side, IGNORE, mask)) for side in (first, ~first)]
