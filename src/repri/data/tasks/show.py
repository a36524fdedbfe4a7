"""Pictures with their masks laid over them, and contact sheets of tasks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from repri.data.datasets.dataset import Dataset
from repri.data.io.images import IGNORE, colour_map
from repri.runtime.files import atomic
from repri.runtime.parallel import parallel

from .tasks import Task

__all__ = ["overlay", "task_sheet"]

OBJECT = (255, 64, 32)
VOID = (160, 160, 160)


def overlay(image: np.ndarray, mask: np.ndarray, colours: dict[int, tuple[int, int, int]] | None = None) -> np.ndarray:
    """[H, W, 3]: each id's region tinted and outlined; 255 hatched in grey. ``colours``: id → rgb, else VOC's."""
    out = image.astype(np.float32)
    table = colour_map()
    for id in np.unique(mask):
        if id == 0:
            continue
        region = mask == id
        colour = VOID if id == IGNORE else (colours or {}).get(int(id), tuple(table[int(id) % 256].tolist()))
        out[region] = 0.55 * out[region] + 0.45 * np.array(colour, np.float32)
        out[_outline(region)] = colour
    return out.round().astype(np.uint8)


def _outline(region: np.ndarray) -> np.ndarray:
    """Pixels of a region that touch what is not in it."""
    padded = np.pad(region, 1, mode="edge")
    inner = padded[:-2, 1:-1] & padded[2:, 1:-1] & padded[1:-1, :-2] & padded[1:-1, 2:]
    return region & ~inner


def task_sheet(dataset: Dataset, tasks: Sequence[Task], path: Path, height: int = 150) -> None:
    """One row per task: its support with the class's mask, then the query with its truth."""
    rows = list(parallel(lambda task: _row(dataset, task, height), tasks))
    width = max(row.width for row in rows)
    total = sum(row.height for row in rows)
    if path.suffix.lower() in (".jpg", ".jpeg") and max(width, total) > 65_500:
        raise ValueError(f"{path}: a sheet of {width}×{total} is too large for JPEG: draw fewer tasks or write a .png")
    sheet = Image.new("RGB", (width, total), "white")
    top = 0
    for row in rows:
        sheet.paste(row, (0, top))
        top += row.height
    with atomic(path) as temporary:
        sheet.save(temporary)


def _row(dataset: Dataset, task: Task, height: int) -> Image.Image:
    font = ImageFont.load_default(12)
    tiles = []
    for id in (*task.support, task.query):
        image, mask = dataset.pair(id)
        shown = np.where(mask == task.class_id, 1, np.where(mask == IGNORE, IGNORE, 0))
        picture = Image.fromarray(image)
        size = (min(max(1, round(picture.width * height / picture.height)), 3 * height), height)
        small = np.asarray(picture.resize(size, Image.Resampling.BILINEAR))
        ids = np.asarray(Image.fromarray(shown.astype(np.uint8)).resize(size, Image.Resampling.NEAREST))
        tiles.append((id, Image.fromarray(overlay(small, ids, {1: OBJECT}))))
    gap, caption = 4, 18
    width = sum(tile.width + gap for _, tile in tiles) + 2 * gap
    row = Image.new("RGB", (width, height + caption + gap), "white")
    pen, left = ImageDraw.Draw(row), gap
    for i, (id, tile) in enumerate(tiles):
        is_query = i == len(tiles) - 1
        left += gap if is_query else 0
        name = dataset.classes[task.class_id]
        label = f"query {id}" if is_query else f"{name}: {id}" if i == 0 else id
        while len(label) > 4 and pen.textlength(label, font) > tile.width:
            label = label[:-2] + "…"
        pen.text((left, 1), label, "black", font)
        row.paste(tile, (left, caption))
        left += tile.width + gap
    return row
