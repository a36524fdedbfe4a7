"""How many objects are there, and which? Instances of one class on COCO images, from one annotated image.

    python benchmarks/instances.py --root COCO_MICRO [--tasks 24] [--shots 1] [--regions MODEL]

COCO_MICRO is a folder with images/ and instances_micro.json. A task is a class, images that show it as the support, and
another one as the query; tasks are drawn evenly over the classes with enough images. Classes of PASCAL are left out,
because the model in the package has seen their labels. The rows differ in the mask and in
how it is divided: parts that do not touch, or also where regions lie side by side. AP is COCO's, over all tasks as one
class; the score of an object is its mean probability. "count" is the mean absolute error of the number of objects.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import random
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from repri import Segmentation, Segmenter
from repri.data.io.classes import COCO_NAMES, PASCAL
from repri.data.io.images import read_image
from repri.data.io.segmentations import decode, encode
from repri.regions.instances import separated

LEAST = 1024
"""Least pixels of an object."""
SEEN = {COCO_NAMES.get(name, name) for name in PASCAL}
"""Classes whose labels the model in the package has seen."""


class Labelled(NamedTuple):
    """The objects of one class in one image."""

    path: Path
    objects: np.ndarray
    """bool [n, H, W]."""
    crowd: np.ndarray
    """bool [H, W]: pixels that are not compared."""


def read_classes(root: Path) -> dict[str, list[tuple[dict[str, Any], list[dict[str, Any]]]]]:
    """Class → images that show an object of it that is large enough, with their annotations of this class."""
    content = json.loads((root / "instances_micro.json").read_text())
    names, images = ({entry["id"]: entry for entry in content[key]} for key in ("categories", "images"))
    listed: dict[str, dict[int, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for entry in content["annotations"]:
        listed[names[entry["category_id"]]["name"]][entry["image_id"]].append(entry)
    return {
        name: [(images[i], found) for i, found in sorted(by_image.items()) if _large(found)]
        for name, by_image in sorted(listed.items())
        if name not in SEEN
    }


def _large(entries: list[dict[str, Any]]) -> bool:
    return any(entry["area"] >= 4 * LEAST and not entry.get("iscrowd") for entry in entries)


def labelled(root: Path, image: dict[str, Any], entries: list[dict[str, Any]]) -> Labelled:
    height, width = image["height"], image["width"]
    drawn = [(decode(e["segmentation"], height, width).astype(bool), e) for e in entries]
    objects = [mask for mask, e in drawn if not e.get("iscrowd") and mask.sum() >= LEAST]
    other = [mask for mask, e in drawn if e.get("iscrowd") or mask.sum() < LEAST]
    nothing = np.zeros((height, width), bool)
    return Labelled(root / "images" / image["file_name"], np.stack(objects), np.logical_or.reduce([nothing, *other]))


def found(result: Segmentation, by_regions: bool) -> list[tuple[np.ndarray, float]]:
    """Masks and scores of the objects in a result."""
    numbers = separated(result.mask == 1, result.regions.get("object") if by_regions else None)
    masks = [numbers == n for n in range(1, int(numbers.max()) + 1)]
    return [(mask, float(result.probability[mask].mean())) for mask in masks if mask.sum() >= LEAST]


def average_precision(truths: list[Labelled], predictions: list[list[tuple[np.ndarray, float]]]) -> tuple[float, float]:
    """AP and AP at IoU 0.5, in percent."""
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    objects: list[dict[str, Any]] = []
    for number, truth in enumerate(truths, 1):
        masks = [(mask, 0) for mask in truth.objects] + ([(truth.crowd, 1)] if truth.crowd.any() else [])
        for mask, crowd in masks:
            known = {"image_id": number, "category_id": 1, "iscrowd": crowd, "segmentation": encode(mask)}
            objects.append(known | {"id": len(objects) + 1, "area": int(mask.sum()), "bbox": [0, 0, 1, 1]})
    listed = [
        {"image_id": number, "category_id": 1, "segmentation": encode(mask), "score": score}
        for number, masks in enumerate(predictions, 1)
        for mask, score in masks
    ]
    sizes = [truth.crowd.shape for truth in truths]
    with contextlib.redirect_stdout(io.StringIO()):
        known = COCO()
        known.dataset = {
            "images": [{"id": i, "height": h, "width": w} for i, (h, w) in enumerate(sizes, 1)],
            "annotations": objects,
            "categories": [{"id": 1, "name": "object"}],
        }
        known.createIndex()
        scored = COCOeval(known, known.loadRes(listed), "segm")
        scored.evaluate()
        scored.accumulate()
        scored.summarize()
    return 100 * float(scored.stats[0]), 100 * float(scored.stats[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--tasks", type=int, default=24)
    parser.add_argument("--shots", type=int, default=1)
    parser.add_argument("--regions")
    options = parser.parse_args()
    classes = {name: images for name, images in read_classes(options.root).items() if len(images) > 5 + options.shots}
    draw, names = random.Random(0), sorted(classes)
    rows: dict[str, list[list[tuple[np.ndarray, float]]]] = defaultdict(list)
    truths = []
    for i in range(options.tasks):
        chosen = draw.sample(classes[names[i * len(names) // options.tasks]], options.shots + 1)
        *shots, query = (labelled(options.root, *pair) for pair in chosen)
        images = [read_image(shot.path) for shot in shots]
        maps = [np.where(s.objects.any(0), 1, np.where(s.crowd, 255, 0)).astype(np.uint8) for s in shots]
        truths.append(query)
        for refine in ("guided", "regions"):
            regions = options.regions if refine == "regions" else None
            segmenter = Segmenter(auto=False, refine=refine, regions=regions)
            result = segmenter.fit_maps(images, maps, ["object"]).segment(query.path)
            rows[f"{refine}, parts that do not touch"].append(found(result, False))
            if refine == "regions":
                rows["regions, separated by regions"].append(found(result, True))
    objects = [len(truth.objects) for truth in truths]
    print(f"{len(truths)} tasks of {len(names)} classes, {sum(objects)} objects{'':5} AP   AP50  count  right count")
    for name, predictions in rows.items():
        ap, ap50 = average_precision(truths, predictions)
        wrong = np.abs(np.array([len(masks) for masks in predictions]) - np.array(objects))
        print(f"{name:40} {ap:6.1f} {ap50:6.1f} {wrong.mean():6.2f} {100 * (wrong == 0).mean():6.0f} %")


if __name__ == "__main__":
    main()
