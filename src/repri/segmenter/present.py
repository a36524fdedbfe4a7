"""Which classes an image shows, where the user knows it.

Whether a class is there at all is the hardest question about several classes. A person answers it at a glance, or has
the answer in a table: a label for a whole image is the cheapest annotation there is.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from pathlib import Path

import torch
from torch import Tensor

from repri.runtime.errors import RepriError
from repri.runtime.reading import read_text, short

__all__ = ["check_present", "read_present", "shown_in", "without_absent"]


def check_present(names: Iterable[str], classes: tuple[str, ...]) -> tuple[bool, ...]:
    """Whether each class is among the names.

    Args:
        names: Classes that an image shows.
        classes: All classes.

    Returns:
        A value for each class.

    Example:
        >>> check_present(["dog"], ("cat", "dog"))
        (False, True)
    """
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise RepriError(f"present takes a list of classes, such as {[classes[0]]}, got {short(names)}.")
    names = list(names)
    for name in names:
        if name not in classes:
            raise RepriError(f"present names {short(name)}, which is no class. Known: {', '.join(classes)}.")
    return tuple(name in names for name in classes)


def shown_in(
    name: str, present: Mapping[str, Iterable[str]] | None, classes: tuple[str, ...]
) -> tuple[bool, ...] | None:
    """Which classes an image shows, by its whole name or by its file name; None if that is not known.

    Example:
        >>> shown_in("images/a.jpg", {"a.jpg": ["dog"]}, ("cat", "dog"))
        (False, True)
    """
    for key in (name, Path(name).name):
        if present is not None and key in present:
            return check_present(present[key], classes)
    return None


def read_present(path: str | Path, classes: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """Read a table of images and the classes that they show.

    Args:
        path: A CSV file. Each line has the file name of an image, then the classes that it shows. A first line that
            begins with ``image`` is a heading.
        classes: All classes.

    Returns:
        File name → classes.
    """
    path, table = Path(path).expanduser(), {}
    for number, row in enumerate(csv.reader(io.StringIO(read_text(path).removeprefix("\ufeff"), newline="")), 1):
        cells = [cell.strip() for cell in row]
        if not any(cells) or (number == 1 and cells[0].lower() == "image"):
            continue
        name, shown = cells[0], tuple(cell for cell in cells[1:] if cell)
        if not name:
            raise RepriError(f"{path}, line {number}: the name of the image is missing.")
        if name in table:
            raise RepriError(f"{path}, line {number}: {short(name)} is named twice: give one line to each image.")
        for label in shown:
            if label not in classes:
                raise RepriError(f"{path}, line {number}: {short(label)} is no class. Known: {', '.join(classes)}.")
        table[name] = shown
    if not table:
        raise RepriError(f"{path} names no image: each line is the name of an image, then the classes that it shows.")
    return table


def without_absent(probability: Tensor, there: tuple[bool, ...]) -> Tensor:
    """Probabilities [N, H, W] in which absent classes have none, and leave theirs to the others and the background.

    Example:
        >>> without_absent(torch.tensor([0.6, 0.3])[:, None, None], (False, True)).flatten()
        tensor([0.0000, 0.7500])
    """
    kept = torch.tensor(there)
    left = (1 - probability[~kept].sum(0)).clamp_min(1e-6)
    return probability * kept[:, None, None] / left
