"""A split whose masks are drawn from a COCO file when they are asked for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from repri.data.io.coco import draw_mask, has_objects, read_annotations
from repri.runtime.errors import RepriError

from .dataset import Sample, Source
from .samples import name_samples

__all__ = ["open_annotations"]


def open_annotations(path: Path, images: Path, classes: Mapping[str, int]) -> tuple[tuple[Sample, ...], Source]:
    """Open a COCO file as a split.

    Args:
        path: The JSON file.
        images: Folder of the images.
        classes: Class → id; objects of other categories are left out.

    Returns:
        The images with at least one object of the classes, and the source that draws their masks.
    """
    annotations = read_annotations(path)
    ids = {category: classes[name] for category, name in annotations.names.items() if name in classes}
    missing = set(classes) - set(annotations.names.values())
    if missing:
        raise RepriError(f"{path} has no category {min(missing)!r}")
    chosen = [image for image in annotations.images if has_objects(image, ids)]
    if not chosen:
        raise RepriError(f"{path} annotates no object of the given classes")
    samples = name_samples([(images / image.file, None) for image in chosen], path)
    kept = dict(zip((sample.id for sample in samples), chosen, strict=True))
    stat = path.stat()
    fingerprint = f"{path.absolute()} {stat.st_size} {stat.st_mtime_ns} {ids}"
    return samples, Source(lambda id: draw_mask(kept[id], ids), fingerprint)
