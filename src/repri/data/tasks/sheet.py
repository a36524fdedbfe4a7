"""A contact sheet of tasks: one row for each, with masks laid over the images."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from repri.data.datasets.dataset import Dataset
from repri.data.io.images import check_pixels
from repri.data.io.masks import IGNORE
from repri.runtime.draw import overlay, stack
from repri.runtime.errors import RepriError
from repri.runtime.files import atomic
from repri.runtime.parallel import parallel

from .tasks import Task

__all__ = ["task_sheet"]

OBJECT = (255, 64, 32)
"""Colour of the task's class."""
GAP, CAPTION = 4, 18
"""Pixels between the images of a row, and above them."""
MOST_JPEG = 65_500
"""Pixels of the longest side that JPEG can have."""


def task_sheet(dataset: Dataset, tasks: Sequence[Task], path: Path, height: int = 150) -> None:
    """Draw one row for each task: the support images with the masks of the class, then the query with its mask.

    Args:
        dataset: The data set of the tasks.
        tasks: The tasks.
        path: The image file to write.
        height: Height of the images in pixels.
    """
    shots = 1 + max((len(task.support) for task in tasks), default=0)
    check_pixels((height + CAPTION + GAP) * len(tasks), (3 * height + GAP) * shots, f"a sheet of {len(tasks):,} tasks")
    sheet = stack(list(parallel(lambda task: _row(dataset, task, height), tasks)))
    total, width = sheet.shape[:2]
    if path.suffix.lower() in (".jpg", ".jpeg") and max(width, total) > MOST_JPEG:
        raise RepriError(f"{path}: a sheet of {width}×{total} is too large for JPEG: draw fewer tasks or write a .png")
    with atomic(path) as temporary:
        Image.fromarray(sheet).save(temporary)


def _row(dataset: Dataset, task: Task, height: int) -> np.ndarray:
    """Draw one task [height + margins, width, 3]; the query stands a little apart."""
    font = ImageFont.load_default(12)
    tiles = [(id, _tile(dataset, id, task.class_id, height)) for id in (*task.support, task.query)]
    width = sum(tile.width + GAP for _, tile in tiles) + 2 * GAP
    row = Image.new("RGB", (width, height + CAPTION + GAP), "white")
    pen, left = ImageDraw.Draw(row), GAP
    for i, (id, tile) in enumerate(tiles):
        is_query = i == len(tiles) - 1
        left += GAP if is_query else 0
        label = f"query {id}" if is_query else f"{dataset.classes[task.class_id]}: {id}" if i == 0 else id
        while len(label) > 4 and pen.textlength(label, font) > tile.width:
            label = label[:-2] + "…"
        pen.text((left, 1), label, "black", font)
        row.paste(tile, (left, CAPTION))
        left += tile.width + GAP
    return np.asarray(row)


def _tile(dataset: Dataset, id: str, class_id: int, height: int) -> Image.Image:
    """Draw one image with the mask of a class, scaled to a height and at most three times as wide."""
    image, mask = dataset.pair(id)
    shown = np.where(mask == class_id, 1, np.where(mask == IGNORE, IGNORE, 0)).astype(np.uint8)
    whole = Image.fromarray(image)
    size = (min(max(1, round(whole.width * height / whole.height)), 3 * height), height)
    small = np.asarray(whole.resize(size, Image.Resampling.BILINEAR))
    ids = np.asarray(Image.fromarray(shown).resize(size, Image.Resampling.NEAREST))
    return Image.fromarray(overlay(small, ids, {1: OBJECT}))
