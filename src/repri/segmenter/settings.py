"""Settings of ``repri segment``, nested by subject. Free of torch, because the command's flags are made from them."""

from __future__ import annotations

from dataclasses import dataclass, field
from numbers import Integral

from repri.methods.settings import MethodSettings
from repri.models.settings import ExtractorSettings
from repri.runtime.errors import RepriError
from repri.runtime.reading import short

__all__ = ["LookSettings", "SegmentSettings", "SupportSettings", "WriteSettings", "check_batch"]

MOST_AT_ONCE = 10_000
"""Images that may be worked on at once."""


@dataclass(frozen=True)
class SupportSettings:
    """The annotated images."""

    name: str | None = None
    """Annotated images: a folder with images/ and masks/, a COCO JSON, LabelMe files, …"""
    format: str | None = None
    """Format of the annotations, if it is not recognised."""
    images: str | None = None
    """Folder of the annotated images, if they are not beside the annotations."""
    classes: tuple[str, ...] | None = None
    """Classes to use, with commas; default: all of them."""


@dataclass(frozen=True)
class LookSettings:
    """How images are looked at."""

    mirror: bool = False
    """Average over the image and its mirror image, for twice the time."""
    scales: tuple[float, ...] = (1.0,)
    """Average over several sizes, as factors: 0.75,1,1.25."""
    tile: int | None = None
    """Look at larger images in tiles of this many pixels."""


@dataclass(frozen=True)
class WriteSettings:
    """Files that are written besides the masks."""

    probabilities: bool = False
    """Also write 16-bit probability maps."""
    overlays: bool = False
    """Also write the images with their masks over them."""
    export: tuple[str, ...] = ()
    """Also write annotation files: coco, labelme, label-studio (with commas)."""
    instances: bool = False
    """Also number the objects: instances/NAME.png, and one annotation for each in coco.json and other exports."""


def check_batch(batch: int) -> None:
    """Raise an error unless some images, but not any number of them, are worked on at once.

    Example:
        >>> check_batch(0)
        Traceback (most recent call last):
        repri.runtime.errors.RepriError: batch must lie between 1 and 10000, got 0.
    """
    if not isinstance(batch, Integral) or not 1 <= batch <= MOST_AT_ONCE:
        raise RepriError(f"batch must lie between 1 and {MOST_AT_ONCE}, got {short(batch)}.")


@dataclass(frozen=True)
class SegmentSettings:
    """Everything that decides the masks."""

    support: SupportSettings = field(default_factory=SupportSettings)
    query: str | None = None
    """Images to segment: an image, a folder, a pattern such as 'a/*.jpg', or a .txt file with one path a line."""
    output: str | None = None
    """Folder to write masks/, results.csv and index.html into."""
    extractor: ExtractorSettings = field(default_factory=ExtractorSettings)
    method: MethodSettings = field(default_factory=MethodSettings)
    look: LookSettings = field(default_factory=LookSettings)
    refine: str = "default"
    """Refinement of the masks' borders: guided (default), fine (for small objects), none, or regions (whole objects,
    by a region model; slower)."""
    regions: str | None = None
    """Region model of the refinement regions: sam2-tiny, mobile-sam, hub:NAME or a folder; default: the first of them
    in the cache."""
    joint: bool = True
    """Let several classes compete in one classifier; otherwise each class is fitted on its own."""
    auto: bool = True
    """Let the support choose the weight of textures and the size; otherwise only objects count."""
    textures: float | None = None
    """Weight of textures, 0 to 1, instead of the one that the support would choose."""
    proportion: str | None = None
    """Known proportion of the image that the object covers: 0.1, 0.05-0.2, or cat=0.1,dog=0.2."""
    present: str | None = None
    """CSV file that says which classes images show: the file name of an image, then its classes, one image a line."""
    batch: int = 8
    """Number of images that are worked on at once."""
    write: WriteSettings = field(default_factory=WriteSettings)

    def __post_init__(self) -> None:
        check_batch(self.batch)
