"""The photographs that come with the package: one annotated image of an object, and others that show it too."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from repri.data.io.images import read_image
from repri.data.io.masks import read_mask
from repri.data.io.pairs import pair_files
from repri.runtime.errors import RepriError
from repri.runtime.files import new_folder

__all__ = ["EXAMPLES", "Example", "ExampleImage", "copy_examples", "load_example"]

FOLDER = Path(__file__).with_name("bundled")
"""README.md in this folder says where each photograph comes from, and who may use it."""


class ExampleImage(NamedTuple):
    """A photograph and its mask, which was drawn by hand."""

    name: str
    image: np.ndarray
    """[H, W, 3] uint8."""
    mask: np.ndarray
    """[H, W] uint8: 0 background, 1 the object, 255 no label."""


@dataclass(frozen=True)
class Example:
    """An object that is annotated in one photograph and shown by others."""

    name: str
    object: str
    """Name of the class."""
    story: str
    """What is annotated and what is asked, in one or two short sentences."""

    @property
    def folder(self) -> Path:
        """The folder with ``annotated/`` and ``queries/``. Each has ``images/``, ``masks/`` and ``classes.txt``."""
        return FOLDER / self.name

    def support(self) -> list[ExampleImage]:
        """The annotated images."""
        return _images(self.folder / "annotated")

    def queries(self) -> list[ExampleImage]:
        """The images to segment, with their true masks."""
        return _images(self.folder / "queries")


EXAMPLES: dict[str, Example] = {
    example.name: example
    for example in (
        Example("coin", "coin", "One coin is annotated (blue: no label). The query shows 18 others."),
        Example("coins", "coin", "A row of six coins is annotated. The query shows 18 others."),
        Example("tissue", "gland", "Glands are annotated in half of a stained section. The query is the other half."),
        Example("citrus", "orange", "Orange slices are annotated; lemons and limes are background."),
        Example("people", "person", "A naval officer is annotated. The query shows another person."),
    )
}
"""Name → example."""


def load_example(name: str) -> Example:
    """One of the examples that come with the package.

    Args:
        name: ``coin``, ``coins``, ``tissue``, ``citrus`` or ``people``.

    Returns:
        The example, whose images are read when they are asked for.

    Example:
        >>> example = load_example("coins")
        >>> [(item.name, item.image.shape, item.mask.max()) for item in example.queries()]
        [('rows_2_to_4', (218, 384, 3), np.uint8(1))]
    """
    if name not in EXAMPLES:
        raise RepriError(f"There is no example named {name!r}. Known: {', '.join(EXAMPLES)}.")
    return EXAMPLES[name]


def copy_examples(folder: Path, names: Sequence[str] = tuple(EXAMPLES)) -> None:
    """Write examples into a folder, so that the commands can be tried on them.

    Args:
        folder: Receives one folder for each example; one that is there already stays as it is.
        names: Names of the examples.
    """
    for example in map(load_example, names):
        if not (folder / example.name).exists():
            with new_folder(folder / example.name) as temporary:
                shutil.copytree(example.folder, temporary, dirs_exist_ok=True)


def _images(folder: Path) -> list[ExampleImage]:
    pairs = pair_files(folder / "images", folder / "masks")
    return [ExampleImage(image.stem, read_image(image), read_mask(mask)) for image, mask in pairs]
