"""Opening every file of a data set and naming those that are wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from repri.data.io.images import read_image
from repri.data.io.masks import IGNORE, check_same_size, is_mask
from repri.runtime.draw import colour_map
from repri.runtime.parallel import parallel

from .dataset import Dataset, Sample
from .index import ClassIndex, class_lists

__all__ = ["EXPECTED", "Verification", "doubled_images", "verify"]

EXPECTED: dict[tuple[str, str], tuple[int, tuple[int, ...] | None]] = {
    ("pascal", "train"): (
        5953,
        (307, 246, 351, 230, 223, 225, 506, 555, 564, 157, 293, 613, 252, 261, 1856, 222, 174, 292, 289, 287),
    ),
    ("pascal", "val"): (
        1449,
        (81, 63, 89, 61, 71, 70, 100, 118, 110, 69, 73, 125, 76, 74, 386, 63, 53, 90, 82, 69),
    ),
    ("coco", "train"): (82081, None),
    ("coco", "val"): (40137, None),
}
"""Number of images in the standard lists, and how many of them hold at least MIN_PIXELS of each class."""


@dataclass(frozen=True)
class Verification:
    """The state of one split."""

    dataset: Dataset
    problems: tuple[str, ...]
    """One sentence for each, which begins with the file."""
    counts: dict[int, int]
    """Class → number of images with enough of it."""
    expected_images: int | None
    expected_counts: dict[int, int] | None

    @property
    def usable(self) -> bool:
        """Whether every file is as it should be."""
        return not self.problems

    @property
    def standard(self) -> bool:
        """Whether the numbers are those of the standard lists, if the data set has any."""
        return self.expected_images in (None, len(self.dataset)) and self.expected_counts in (None, self.counts)


def verify(
    dataset: Dataset, workers: int | None = None, progress: Callable[[int, int], None] | None = None
) -> Verification:
    """Open every image and mask of a split.

    Args:
        dataset: The data set.
        workers: Number of threads that open files. None: one for each core.
        progress: Called with the number of samples that were opened and the number of all.

    Returns:
        The problems, and the number of images of each class.
    """
    problems: list[str] = []
    rows = np.zeros((len(dataset), len(dataset.classes)), np.int64)
    for i, (sentences, counts) in enumerate(parallel(lambda s: _check(dataset, s), dataset.samples, workers)):
        problems += sentences
        rows[i] = counts
        if progress:
            progress(i + 1, len(dataset))
    if dataset.mask_folder is not None:
        known = {sample.mask for sample in dataset.samples}
        orphans = [path for path in sorted(dataset.mask_folder.iterdir()) if is_mask(path)]
        problems += [
            f"{path}: a mask without an image; remove it or add the image" for path in orphans if path not in known
        ]
    index = ClassIndex(tuple(dataset.classes), rows, "")
    lists = {id: len(names) for id, names in class_lists(dataset, index).items()}
    images, expected = EXPECTED.get((dataset.name, dataset.split), (None, None))
    return Verification(
        dataset, tuple(problems), lists, images, dict(zip(dataset.classes, expected, strict=True)) if expected else None
    )


def _check(dataset: Dataset, sample: Sample) -> tuple[list[str], np.ndarray]:
    """Check one sample: sentences about its mistakes, and its pixels of each class."""
    problems = []
    nothing = np.zeros(len(dataset.classes), np.int64)
    image = mask = None
    try:
        image = read_image(sample.image)
    except ValueError as error:
        problems.append(_beginning_with(sample.image, error))
    try:
        mask = dataset.annotation(sample.id)
    except ValueError as error:
        problems.append(_beginning_with(sample.mask or sample.image, error))
    if mask is None:
        return problems, nothing
    name = sample.mask or sample.id
    if image is not None:
        try:
            check_same_size(image.shape[:2], mask, sample.image, name)
        except ValueError as error:
            problems.append(str(error))
    histogram = np.bincount(mask.ravel(), minlength=max(*dataset.classes, IGNORE) + 1)
    present = set(np.nonzero(histogram)[0].tolist())
    unknown = sorted(present - {0, IGNORE} - set(dataset.classes))
    if unknown:
        problems.append(f"{name}: {_explain(unknown, present)}")
    return problems, histogram[list(dataset.classes)]


def _beginning_with(path: Path, error: ValueError) -> str:
    """The message of an error, with the file at its beginning."""
    text = str(error)
    return text if text.startswith(str(path)) else f"{path}: {text}"


_GREY = (colour_map() @ np.array([0.299, 0.587, 0.114])).round().astype(int)
_GREY_IGNORE = 220
"""Grey levels of VOC's palette: those of the classes above, and that of ignored pixels."""


def _explain(unknown: Sequence[int], present: set[int]) -> str:
    """Name ids that are no classes, and the usual reason: the colours of a palette were saved as grey levels."""
    ids = ", ".join(map(str, unknown[:8])) + (", …" if len(unknown) > 8 else "")
    greys = {int(grey): id for id, grey in reversed(list(enumerate(_GREY[:21])))} | {_GREY_IGNORE: IGNORE}
    if present <= set(greys):
        example = f"{unknown[0]} for {greys[unknown[0]]}"
        return f"the ids {ids} look like VOC's palette saved as grey levels ({example}): take the palette PNG itself"
    if present <= {0, IGNORE, *range(250, 256)} or len(unknown) > 32:
        return f"holds the ids {ids}, as an image of grey levels does: save class ids without smoothing or JPEG"
    return f"holds the class ids {ids}, which the data set does not have: correct the mask or name the classes"


def doubled_images(splits: Sequence[Dataset]) -> list[str]:
    """Find images that are in two splits: an image of the training must not be in the test.

    Args:
        splits: The splits of one data set.

    Returns:
        One sentence for each such image.
    """
    seen: dict[Path, str] = {}
    problems = []
    for dataset in splits:
        for sample in dataset.samples:
            path = sample.image.absolute()
            if path in seen and seen[path] != dataset.split:
                problems.append(f"{sample.image}: is in {seen[path]} and in {dataset.split}; keep one")
            seen.setdefault(path, dataset.split)
    return problems
