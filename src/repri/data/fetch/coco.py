"""COCO-20i from COCO 2014: downloaded, unpacked, drawn as masks, listed.

Every step can be interrupted and run again. The list files are written last, so a split that has its list is complete.
The root has ``train2014``, ``val2014`` and ``annotations``, from which ``masks`` and ``lists/coco`` are made, and
``masks-official`` and ``lists/coco-official`` with the first polygon of each object only.
"""

from __future__ import annotations

from pathlib import Path

from repri.data.datasets.known import SPLITS, list_folder
from repri.data.io.classes import COCO, number_classes
from repri.data.io.coco import CocoAnnotations, CocoImage, draw_mask, has_objects, read_annotations
from repri.data.io.masks import write_mask
from repri.runtime.errors import RepriError
from repri.runtime.parallel import parallel

from .downloads import Downloads, write_lines

__all__ = ["coco_ids", "get_coco", "prepare_coco"]


def get_coco(downloads: Downloads, keep_archives: bool = False) -> None:
    """Download COCO 2014 and prepare COCO-20i for all protocols.

    Args:
        downloads: The folder to fill and where the archives come from.
        keep_archives: Keep the archives after they are unpacked.
    """
    downloads.unpack("coco-annotations", _annotations_place)
    for split in SPLITS:
        downloads.unpack(f"coco-{split}", lambda name, split=split: _images_place(name, split))
    prepare_coco(downloads)
    if not keep_archives:
        downloads.remove("coco-annotations", "coco-train", "coco-val")


def _annotations_place(name: str) -> str | None:
    """The place of a member of the annotations: those of objects."""
    return name if name in ("annotations/instances_train2014.json", "annotations/instances_val2014.json") else None


def _images_place(name: str, split: str) -> str | None:
    """The place of a member of a split's archive: the images."""
    return name if name.startswith(f"{split}2014/") and name.endswith(".jpg") else None


def prepare_coco(downloads: Downloads) -> None:
    """Draw masks from the annotations and list the images with at least one object that is no crowd.

    Args:
        downloads: The folder, with everything unpacked.
    """
    for split in SPLITS:
        path = downloads.root / "annotations" / f"instances_{split}2014.json"
        annotations = read_annotations(path)
        ids = coco_ids(annotations, path)
        images = [image for image in annotations.images if has_objects(image, ids)]
        for first_polygon_only in (False, True):
            _prepare_masks(downloads, split, images, ids, first_polygon_only)


def _prepare_masks(
    downloads: Downloads, split: str, images: list[CocoImage], ids: dict[int, int], first_polygon_only: bool
) -> None:
    """Draw the masks of a split that are not there yet, and then write its list."""
    root = downloads.root
    folder = f"{'masks-official' if first_polygon_only else 'masks'}/{split}2014"

    def write(image: CocoImage) -> str:
        mask = f"{folder}/{image.stem}.png"
        if not (root / mask).is_file():
            write_mask(draw_mask(image, ids, first_polygon_only), root / mask)
        return f"{split}2014/{image.file} {mask}"

    lines = list(downloads.counted(f"draw {folder}", parallel(write, images), len(images)))
    write_lines(lines, root / list_folder("coco", first_polygon_only) / f"{split}.txt")


def coco_ids(annotations: CocoAnnotations, path: Path) -> dict[int, int]:
    """Number COCO's categories from 1 to 80 by their names, which gives the order of the category ids.

    Args:
        annotations: The content of the file.
        path: The file, for messages.

    Returns:
        Category id → class id.
    """
    by_name = {name: id for id, name in number_classes(COCO).items()}
    unknown = [name for name in annotations.names.values() if name not in by_name]
    if unknown:
        raise RepriError(
            f"{path} has the category {unknown[0]!r}, which COCO does not have: use a YAML file for your own"
        )
    return {category: by_name[name] for category, name in annotations.names.items()}
