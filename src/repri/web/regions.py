"""The magic wand: the region of a click or a box, where a region model is there."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np

from repri.regions.load import load_regions, regions_name
from repri.regions.store import EmbeddingStore
from repri.runtime.errors import RepriError

from .limits import Refused
from .marks import Mark, region_mark

__all__ = ["region_of", "why_no_regions"]

Point = tuple[float, float]


def why_no_regions() -> str | None:
    """Why there is no magic wand, in one sentence; None: there is one."""
    if find_spec("onnxruntime") is None:
        return "The magic wand needs a region model: install repri[regions] and run repri weights get sam2-tiny."
    try:
        regions_name()
    except RepriError as error:
        return str(error)
    return None


def region_of(image: np.ndarray, points: list[Point], box: tuple[Point, Point] | None, label: int) -> Mark:
    """The region that a person means.

    Args:
        image: [H, W, 3] uint8. It is encoded once; its embedding is kept in the feature store.
        points: Clicks on the object, x and y in pixels.
        box: Two opposite corners of a box around the object.
        label: Label of the mark.

    Returns:
        The region as a mark.
    """
    problem = why_no_regions()
    if problem:
        raise Refused(409, problem)
    model = load_regions()
    height, width = image.shape[:2]
    places = [_inside(point, width, height) for point in points]
    corners = None
    if box is not None:
        (left, right), (top, bottom) = (sorted(values) for values in zip(*box, strict=True))
        corners = (*_inside((left, top), width, height), *_inside((right, bottom), width, height))
        if corners[0] >= corners[2] or corners[1] >= corners[3]:
            raise Refused(422, "The box is empty: drag it over an object.")
    regions = model.masks(EmbeddingStore(model).get(image), points=places or None, box=corners)
    region = regions.best()[0].numpy()
    if not region.any():
        raise Refused(409, "There is no region here: click on an object.")
    return region_mark(region, label)


def _inside(point: Point, width: int, height: int) -> Point:
    return min(max(point[0], 0.0), float(width)), min(max(point[1], 0.0), float(height))
