"""Small data sets on disk."""

import numpy as np
from PIL import Image


def make_image(height=40, width=60, seed=0):
    """An image [height, width, 3] of noise."""
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)


def save_image(path, height=40, width=60, seed=0):
    """Write an image of noise."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(make_image(height, width, seed)).save(path)


def save_ids(path, mask):
    """Write class ids as a grey PNG."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.asarray(mask, np.uint8)).save(path)


def block(height, width, id, size):
    """A mask with ``size`` pixels of a class."""
    mask = np.zeros(height * width, np.uint8)
    mask[:size] = id
    return mask.reshape(height, width)


def tiny_pascal(root, per_class=3, classes=range(1, 21)):
    """``per_class`` images of 64×64 of each class, all enough for the 2048-pixel filter, in VOC's layout."""
    lines = []
    for id in classes:
        for n in range(per_class):
            name = f"{id:02}_{n}"
            save_image(root / "JPEGImages" / f"{name}.jpg", 64, 64, 100 * id + n)
            save_ids(root / "SegmentationClassAug" / f"{name}.png", block(64, 64, id, 2048 + n))
            lines.append(f"JPEGImages/{name}.jpg SegmentationClassAug/{name}.png")
    for split in ("train", "val"):
        path = root / "lists" / "pascal" / f"{split}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(lines) + "\n")
    return root
