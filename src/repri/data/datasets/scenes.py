"""Generated scenes: textured objects on textured grounds, with exact masks.

A class is a texture. Its objects differ in shape, place, scale, orientation, colour cast and light, and an object of
another texture lies in every scene. The scenes show what each term of the objective does, on any machine and without
a download.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import NamedTuple

import torch
import torch.nn.functional as F
import yaml
from filelock import FileLock
from PIL import Image
from torch import Tensor

from repri.data.io.masks import write_mask
from repri.runtime.files import cache_folder, check_writable, new_folder

__all__ = ["SceneTask", "make_dataset", "make_task", "scenes_file"]

CLASSES = ("stripes", "checks", "spots", "grain", "fine stripes", "fine checks", "fine spots", "fine grain")


class SceneTask(NamedTuple):
    """K support scenes and one query scene of one class."""

    support: Tensor
    """[K, 3, H, W] in [0, 1]."""
    support_masks: Tensor
    """[K, H, W] uint8, 1 on the object."""
    query: Tensor
    """[3, H, W]."""
    query_mask: Tensor
    """[H, W]."""


class Texture(NamedTuple):
    """A pattern of two colours."""

    pattern: str
    wavelength: float
    """In pixels."""
    colours: Tensor
    """[2, 3]."""


def make_task(seed: int, shots: int = 1, size: int = 256) -> SceneTask:
    """Draw one task, which is the same on every machine.

    Args:
        seed: Seed of the scenes.
        shots: Number of support scenes.
        size: Height and width in pixels.

    Returns:
        The scenes and the masks of the class in them.

    Example:
        >>> make_task(seed=0, size=32).support.shape
        torch.Size([1, 3, 32, 32])
    """
    g = torch.Generator().manual_seed(seed)
    target = _random_texture(g)
    scenes = [_make_scene(target, size, g) for _ in range(shots + 1)]
    images, masks = (torch.stack(parts) for parts in zip(*scenes, strict=True))
    return SceneTask(images[:-1], masks[:-1], images[-1], masks[-1])


def scenes_file() -> Path:
    """Return the YAML file of the data set ``scenes``, which is drawn into the cache when it is first needed."""
    folder = cache_folder() / "scenes-1"
    check_writable(folder.with_suffix(".lock"), make=True)
    with FileLock(folder.with_suffix(".lock")):  # only one of several processes draws
        if not (folder / "data.yaml").is_file():
            make_dataset(folder)
    return folder / "data.yaml"


def make_dataset(root: Path, train: int = 160, val: int = 64, size: int = 193, seed: int = 0) -> None:
    """Draw a data set of eight textures in four folds, with two objects in each scene.

    Args:
        root: The folder to make.
        train: Number of scenes in the split ``train``.
        val: Number of scenes in the split ``val``.
        size: Height and width of the scenes in pixels.
        seed: Seed of the scenes.
    """
    g = torch.Generator().manual_seed(seed)
    textures = [
        Texture(name.split()[-1], 7.0 if name.startswith("fine") else 15.0, torch.rand(2, 3, generator=g) * 0.7 + 0.15)
        for name in CLASSES
    ]
    with new_folder(root) as folder:
        for split, count in (("train", train), ("val", val)):
            (folder / split / "images").mkdir(parents=True)
            for n in range(count):
                ids = (torch.randperm(len(CLASSES), generator=g)[:2] + 1).tolist()
                ids[0] = n % len(CLASSES) + 1
                image, mask = _make_labelled_scene(textures, ids, size, g)
                pixels = (image.movedim(0, -1) * 255).round().to(torch.uint8).numpy()
                Image.fromarray(pixels).save(folder / split / "images" / f"{split}{n:03}.png")
                write_mask(mask.numpy(), folder / split / "masks" / f"{split}{n:03}.png")
        settings = {
            "name": "scenes",
            "classes": list(CLASSES),
            "splits": {split: {"images": f"{split}/images", "masks": f"{split}/masks"} for split in ("train", "val")},
            "folds": {"interleaved": 4},
        }
        (folder / "data.yaml").write_text(yaml.safe_dump(settings, sort_keys=False))


def _make_labelled_scene(
    textures: list[Texture], ids: list[int], size: int, g: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Draw one image [3, H, W] with an object of each class, the first on top, and the mask [H, W] of ids."""
    image, mask = _render(_random_texture(g), size, g), torch.zeros(size, size, dtype=torch.uint8)
    for id in reversed(ids):
        where = _blob(size, (0.25, 0.75), (0.18, 0.3), g)
        image = torch.where(where, _render(textures[id - 1], size, g), image)
        mask[where] = id
    return _lit(image, size, g), mask


def _make_scene(target: Texture, size: int, g: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draw one image [3, H, W] and the mask [H, W] of the target in it."""
    image = _render(_random_texture(g), size, g)
    ground = _blob(size, (0.2, 0.8), (0.35, 0.55), g)
    image = torch.where(ground, _render(_random_texture(g), size, g), image)
    distractor = _blob(size, (0.1, 0.9), (0.1, 0.2), g)
    image = torch.where(distractor, _render(_random_texture(g), size, g), image)
    mask = _blob(size, (0.3, 0.7), (0.15, 0.3), g)
    image = torch.where(mask, _render(target, size, g), image)
    return _lit(image, size, g), mask.to(torch.uint8)


def _lit(image: Tensor, size: int, g: torch.Generator) -> Tensor:
    """Add uneven light, a little blur and the noise of a camera."""
    light = 0.75 + 0.5 * _smooth_noise(size, size / 2, g)
    image = F.avg_pool2d((image * light)[None], 3, 1, 1)[0] + 0.03 * torch.randn(3, size, size, generator=g)
    return image.clamp(0, 1)


def _random_texture(g: torch.Generator) -> Texture:
    """Draw a pattern, its wavelength and its colours."""
    pattern = ("stripes", "checks", "spots", "grain")[int(torch.randint(4, (), generator=g))]
    colours = torch.rand(2, 3, generator=g) * 0.7 + 0.15
    return Texture(pattern, 6 + 12 * _uniform(g), colours)


def _render(texture: Texture, size: int, g: torch.Generator) -> Tensor:
    """Draw one instance [3, H, W] of a texture: scale, orientation and colour cast vary."""
    wavelength = texture.wavelength * (0.85 + 0.3 * _uniform(g))
    angle = math.pi * _uniform(g)
    axis = torch.arange(size, dtype=torch.float32)
    y, x = torch.meshgrid(axis, axis, indexing="ij")
    u = (x * math.cos(angle) + y * math.sin(angle)) * 2 * math.pi / wavelength
    v = (y * math.cos(angle) - x * math.sin(angle)) * 2 * math.pi / wavelength
    if texture.pattern == "stripes":
        mix = torch.sigmoid(4 * u.sin())
    elif texture.pattern == "checks":
        mix = torch.sigmoid(6 * u.sin() * v.sin())
    elif texture.pattern == "spots":
        mix = torch.sigmoid(10 * (u.cos() + v.cos() - 0.8))
    else:
        mix = torch.sigmoid(10 * (_smooth_noise(size, wavelength / 4, g) - 0.5))
    first, second = texture.colours + 0.06 * torch.randn(1, 3, generator=g)
    return first[:, None, None] * mix + second[:, None, None] * (1 - mix)


def _blob(size: int, centre: tuple[float, float], radius: tuple[float, float], g: torch.Generator) -> Tensor:
    """Draw a smooth star-shaped region, bool [H, W]; the ranges of its place and radius are fractions of the image."""
    cy, cx = (size * (centre[0] + (centre[1] - centre[0]) * _uniform(g)) for _ in range(2))
    r = size * (radius[0] + (radius[1] - radius[0]) * _uniform(g))
    axis = torch.arange(size, dtype=torch.float32)
    y, x = torch.meshgrid(axis - cy, axis - cx, indexing="ij")
    theta, edge = torch.atan2(y, x), torch.ones(size, size)
    for k in range(2, 6):
        edge += 0.35 / k * _uniform(g) * 2 * torch.cos(k * theta + 2 * math.pi * _uniform(g))
    return (x**2 + y**2).sqrt() < r * edge


def _smooth_noise(size: int, scale: float, g: torch.Generator) -> Tensor:
    """Draw noise [H, W] in [0, 1] that varies over about ``scale`` pixels."""
    cells = max(2, round(size / scale))
    coarse = torch.rand(1, 1, cells, cells, generator=g)
    return F.interpolate(coarse, size=(size, size), mode="bicubic", align_corners=True)[0, 0].clamp(0, 1)


def _uniform(g: torch.Generator) -> float:
    """Draw a number in [0, 1)."""
    return float(torch.rand((), generator=g))
