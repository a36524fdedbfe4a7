"""A plain folder of images and masks as a data set."""

from __future__ import annotations

from pathlib import Path

from repri.data.io.pairs import read_image_folder

from .dataset import Dataset
from .samples import name_samples

__all__ = ["open_folder"]


def open_folder(root: Path) -> Dataset:
    """Open a folder with ``images/`` and ``masks/`` as one split with one fold.

    Args:
        root: The folder. Its ``classes.txt`` names the classes, one on each line; without it, each id in the masks is
            a class.

    Returns:
        The data set, whose split is called ``all``.
    """
    folder = read_image_folder(root)
    return Dataset(
        name=root.name,
        split="all",
        root=root,
        classes=folder.classes,
        samples=name_samples(folder.pairs, root / "images"),
        folds=(tuple(folder.classes),),
        masks=folder.masks,
        mask_folder=root / "masks",
    )
