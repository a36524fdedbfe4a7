"""Images of noise, and an extractor that is quick and whose features tell where they lie."""

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image

from repri.features.extractor import FeatureExtractor, InputRule

__all__ = ["Cells", "annotated_folder", "build_quick", "noise", "places", "square"]


def noise(height=40, width=60, seed=0):
    """An image [height, width, 3] uint8 of noise."""
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)


def square(height=40, width=60, top=10, left=15, side=20):
    """A mask [height, width] uint8 with a square of ones."""
    mask = np.zeros((height, width), np.uint8)
    mask[top : top + side, left : left + side] = 1
    return mask


def places(height, width):
    """[3, height, width] float: the row of each pixel, its column, and zero."""
    rows, columns = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    return torch.stack([rows, columns, torch.zeros_like(rows)]).float()


class Cells(FeatureExtractor):
    """Means of tiles, as a transformer has patches, or pixels at equal distances, as strided convolutions have them.

    Its four channels are the colours and their mean. It counts the images that it was given.
    """

    channels = 4

    def __init__(self, stride=8, on_pixels=False, size=64, mark="a"):
        self.name, self.stride, self.on_pixels, self.mark, self.calls = "cells", stride, on_pixels, mark, 0
        self.rule = InputRule(size, 1 if on_pixels else stride)

    def _forward(self, images):
        self.calls += len(images)
        step = self.stride
        cells = images[..., ::step, ::step] if self.on_pixels else F.avg_pool2d(images, step)
        return torch.cat([cells, cells.mean(1, keepdim=True)], 1)

    @property
    def fingerprint(self):
        return self.mark


def build_quick():
    """An extractor with a whitening, so that a segmenter needs no other model; register it as ``quick``."""
    cells = Cells(8, size=96)
    cells.name = "quick"
    cells.whitening = lambda features: F.normalize(features.float(), dim=0)
    return cells


def annotated_folder(path, images=6, classes=("red",)):
    """A folder of images of 64×96 with a square of each class, and their masks; returns the folder."""
    (path / "images").mkdir(parents=True)
    (path / "masks").mkdir()
    (path / "classes.txt").write_text("\n".join(classes) + "\n")
    for i in range(images):
        image, mask = noise(64, 96, seed=i) // 8 + 100, np.zeros((64, 96), np.uint8)
        for n, (_, colour) in enumerate(zip(classes, ((220, 30, 30), (30, 30, 220)), strict=False), 1):
            place = np.s_[8 * ((i + n) % 4) :, 40 * (n - 1) + 4 * (i % 3) :]
            image[place][:24, :32], mask[place][:24, :32] = colour, n
        Image.fromarray(image).save(path / "images" / f"{i:02}.png")
        Image.fromarray(mask).save(path / "masks" / f"{i:02}.png")
    return path
