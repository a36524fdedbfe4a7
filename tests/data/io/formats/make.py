"""Annotations for the tests of the formats."""

import json

import numpy as np

from repri.data.io.annotations import AnnotatedImage, Annotations, shapes_of
from tests.data.make import save_image

NAMES = {1: "cat", 2: "dog"}


def blobs(height=40, width=60):
    """A disc with a hole, a bar that touches the border, a void strip."""
    y, x = np.mgrid[:height, :width]
    mask = np.zeros((height, width), np.uint8)
    distance = np.hypot(y - 18, x - 20)
    mask[(distance < 13) & (distance > 5)] = 1
    mask[25:, 40:55] = 2
    mask[:3] = 255
    return mask


def annotated(folder):
    """Two images with the blobs, the second one mirrored."""
    save_image(folder / "images" / "a.jpg")
    save_image(folder / "images" / "b.jpg", seed=1)
    items = [
        AnnotatedImage(folder / "images" / "a.jpg", 40, 60, shapes_of(blobs(), NAMES)),
        AnnotatedImage(folder / "images" / "b.jpg", 40, 60, shapes_of(blobs()[:, ::-1].copy(), NAMES)),
    ]
    return Annotations(("cat", "dog"), tuple(items))


def save_labelme(path, shapes, **more):
    """Write a LabelMe file of a 40×60 image."""
    save_image(path.with_suffix(".jpg"))
    content = {"imagePath": f"{path.stem}.jpg", "imageHeight": 40, "imageWidth": 60, "shapes": shapes} | more
    path.write_text(json.dumps(content))
    return path


def polygon(label, left, top, right, bottom):
    """A rectangle that was drawn as a polygon, in a LabelMe file."""
    return {"label": label, "points": [[left, top], [right, top], [right, bottom], [left, bottom]]}
