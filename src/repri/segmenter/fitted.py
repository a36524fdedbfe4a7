"""A segmenter that has its support: it segments any number of images and never changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from repri.refine import LARGE, Staged, get_refiner
from repri.runtime.errors import RepriError
from repri.runtime.parallel import parallel

from .classify import Answer, Classifier, Shots
from .experts.blend import Choice, blended, raised, weight_for
from .experts.textures import Textures
from .inputs import ImageLike, Known, Proportion, as_image, known_proportion, name_of
from .look import CLEAN, Look, Seen
from .present import check_present, shown_in, without_absent
from .result import Segmentation
from .settings import check_batch
from .threads import side_by_side

__all__ = ["Fitted"]

STRIP = 1 << 19
"""Pixels of a large image whose mask is made at once."""
LEAST = 0.01
"""Weight below which an expert is not asked."""


@dataclass(frozen=True, eq=False)
class Fitted:
    """What :meth:`repri.Segmenter.fit` returns."""

    classes: tuple[str, ...]
    """Names of the classes; class n of a mask is ``classes[n - 1]``."""
    look: Look
    """The extractor, and how it looks at images."""
    classifier: Classifier
    """The support and the method."""
    refine: str
    """Refinement of the masks' borders."""
    params: dict[str, Any]
    """Parameters of the segmenter that was fitted."""
    choice: Choice = field(default_factory=Choice)
    """What was chosen for this support, and why; ``print(fitted.choice)`` says it in one line."""
    textures: Textures | None = None
    """The expert on colours and textures, if it has a weight."""

    @property
    def shots(self) -> Shots:
        """The support."""
        return self.classifier.shots

    def segment(
        self, image: ImageLike, proportion: Proportion | None = None, present: Iterable[str] | None = None
    ) -> Segmentation:
        """Segment one image.

        Args:
            image: A file, a Pillow image, or an array [H, W, 3] or [H, W].
            proportion: Proportion of the image that the object covers, if it is known: a number, a range (low, high),
                or a number for each of several classes by name.
            present: Classes that the image shows, if that is known; the others get no pixel.

        Returns:
            The mask and the figures behind it.
        """
        shown = None if present is None else {name_of(0, image): present}
        return next(self.segment_many([image], batch=1, proportion=proportion, present=shown))

    def segment_seen(
        self, image: np.ndarray, seen: Seen, proportion: Proportion | None = None, source: str = "image 1"
    ) -> Segmentation:
        """Segment an image whose cells are there already: the expensive part is done once, the rest many times.

        Args:
            image: [H, W, 3] uint8.
            seen: Its cells: ``fitted.look.see(image)``, or what :meth:`repri.segmenter.look.Look.recall` made of them.
            proportion: As in :meth:`segment`.
            source: Name of the image in the result.

        Returns:
            The same as :meth:`segment`, to the bit.
        """
        if self.look.ways() != [(1.0, False)] or len(seen.views) > 1 or seen.mirrored:
            raise RepriError("Cells that are kept are those of one look: use no mirror images, scales or tiles.")
        cells = self.look.extractor.view(seen.size, CLEAN.resize, self.look.size).grid.cells
        if seen.size != image.shape[:2] or tuple(seen.valid.shape) != cells:
            raise RepriError(
                f"These cells are of {seen.size[1]}×{seen.size[0]} pixels, or were looked at differently: look again."
            )
        known = known_proportion(proportion, self.classes)
        ((answer, weight),) = self._answers([image], [known], [seen])
        return self._result(source, image, self._refined(image, answer, weight, known))

    def segment_many(
        self,
        images: Iterable[ImageLike],
        batch: int = 8,
        proportion: Proportion | None = None,
        on_error: Callable[[str, RepriError], None] | None = None,
        present: Mapping[str, Iterable[str]] | None = None,
    ) -> Iterator[Segmentation]:
        """Segment many images.

        Args:
            images: The images; they are read as they are needed.
            batch: Number of images that are worked on at once; up to twice as many are in memory.
            proportion: As in :meth:`segment`, for every image.
            on_error: Called with the name of an image that cannot be used, and what is wrong with it; there is no
                result for it then. Without it, such an image is an error.
            present: File name of an image → the classes that it shows. Images that are not named are looked at as
                usual.

        Yields:
            One result for each image, in order.
        """
        check_batch(batch)
        known = known_proportion(proportion, self.classes)
        if known.point is not None and present is not None:
            raise RepriError("Give proportion or present, not both: a proportion says that a class is there.")
        for names in (present or {}).values():
            check_present(names, self.classes)
        if not isinstance(images, Iterable):
            raise RepriError(f"segment_many takes several images, got {type(images).__name__}: segment takes one.")
        numbered = enumerate(images)
        device = torch.device(getattr(self.look.extractor, "device", "cpu"))
        with side_by_side(batch, device) as (workers, prepare):
            groups = iter(lambda: list(islice(numbered, batch // max(1, workers))), [])

            def work(group: list[tuple[int, ImageLike]]) -> list[Segmentation | tuple[str, RepriError]]:
                return self._segment_group(group, known, present)

            for results in parallel(work, groups, workers, 2, prepare):
                for result in results:
                    if isinstance(result, Segmentation):
                        yield result
                    elif on_error is None:
                        raise result[1]
                    else:
                        on_error(*result)

    def similarity(self, image: ImageLike) -> dict[str, float]:
        """How similar the most similar cells of an image are to each class: the mean cosine of whitened features.

        Args:
            image: As in :meth:`segment`.

        Returns:
            Class → similarity; ``result.presences`` are made from these.
        """
        from .presence import similarity

        seen = self.look.see(as_image(image))
        values = similarity(seen.white, seen.valid, self.classifier.directions)
        return dict(zip(self.classes, values.tolist(), strict=True))

    def save(self, path: str | Path) -> None:
        """Write the fitted segmenter to a file, which :meth:`repri.Segmenter.load` reads.

        Args:
            path: A file name that ends in ``.safetensors``.
        """
        from .files import save_fitted

        save_fitted(self, Path(path).expanduser())

    def _segment_group(
        self, group: list[tuple[int, ImageLike]], known: Known, present: Mapping[str, Iterable[str]] | None
    ) -> list[Segmentation | tuple[str, RepriError]]:
        """The result of each image, or its name and what is wrong with it."""
        results: list[Segmentation | tuple[str, RepriError] | None] = []
        images: dict[int, np.ndarray] = {}
        names = [name_of(*item) for item in group]
        for i, (_, image) in enumerate(group):
            results.append(None)
            try:
                images[i] = as_image(image)
            except RepriError as error:
                results[i] = (names[i], error)
        each = {i: known._replace(there=shown_in(names[i], present, self.classes)) for i in images}
        answers = self._answers(list(images.values()), list(each.values())) if images else []
        for i, image in images.items():
            results[i] = self._result(names[i], image, self._refined(image, *answers.pop(0), each[i]))
        return [result for result in results if result is not None]

    def _answers(
        self, images: list[np.ndarray], known: Sequence[Known], seen_before: list[Seen] | None = None
    ) -> list[tuple[Answer, float]]:
        """The answer of the expert on objects for each image, averaged over scales and mirror images, at its own size;
        and the weight of the expert on textures. All images have the same known proportions, and each its own known
        classes. ``seen_before`` holds the cells of images that were looked at before."""
        total: list[Answer | None] = [None] * len(images)
        weights = [0.0] * len(images)
        ways = self.look.ways()
        for scale, mirrored in ways:
            for places in self._batches(images):
                queries = seen_before or [self.look.see(images[i], scale, mirrored) for i in places]
                for i, seen, answer in zip(places, queries, self.classifier.answer(queries, known[0]), strict=True):
                    full, before = seen.restore(answer.probability), total[i]
                    if before is None:
                        weights[i] = weight_for(self.choice, seen, self.shots.white)
                        total[i] = Answer(full, answer.proportion, answer.presence)
                    else:
                        total[i] = Answer(before.probability + full, before.proportion, before.presence)
        whole = [a if len(ways) == 1 else replace(a, probability=a.probability / len(ways)) for a in total if a]
        return [(self.classifier.one_map(a, k), w) for a, k, w in zip(whole, known, weights, strict=True)]

    def _refined(self, image: np.ndarray, answer: Answer, weight: float, known: Known) -> Answer:
        """The answer with refined borders, joined with that of the expert on textures. Regions are chosen last, and
        only where textures do not count, because textures tell the object to the pixel."""
        refiner = get_refiner(self.refine)
        if isinstance(refiner, Staged) and self.textures is not None and weight >= LEAST:
            refiner = get_refiner(self.choice.refine or CLEAN.refine)
        if not isinstance(refiner, Staged):
            return self._joined(image, replace(answer, probability=refiner(answer.probability, image)), weight, known)
        first = replace(answer, probability=refiner.borders(answer.probability, image))
        joined = self._joined(image, first, weight, known)
        chosen, regions = refiner.choose(joined.probability, image)
        known_size = known.point is not None or known.limits is not None
        proportion = joined.proportion if known_size else (chosen > 0.5).float().mean((1, 2))
        return Answer(chosen, proportion, joined.presence, tuple(regions))

    def _joined(self, image: np.ndarray, answer: Answer, weight: float, known: Known) -> Answer:
        """The answer, joined with that of the expert on textures."""
        probability = answer.probability
        textures = self.textures if weight >= LEAST else None
        if textures is None:
            return answer
        joined = blended(probability, textures.logs(image, known.point), weight)
        if self.choice.least > 0 and known.point is None:
            joined = raised(joined, self.choice.least)
        proportion = answer.proportion if known.point is not None else joined.mean((1, 2))
        if known.limits is not None:
            bounded = proportion.clamp(*known.limits)
            if not torch.equal(bounded, proportion):
                joined = blended(probability, textures.logs(image, tuple(bounded.tolist())), weight)
            proportion = bounded
        if known.there is not None:
            joined = without_absent(joined, known.there)
            proportion = proportion * torch.tensor(known.there) if known.limits else joined.mean((1, 2))
        return Answer(joined, proportion, answer.presence)

    def _batches(self, images: Sequence[np.ndarray]) -> list[list[int]]:
        """Places of the images that are classified together; an image in tiles is a problem of its own."""
        whole = [i for i, image in enumerate(images) if not self.look.tiled(image)]
        return ([whole] if whole else []) + [[i] for i, image in enumerate(images) if self.look.tiled(image)]

    def _result(self, name: str, image: np.ndarray, answer: Answer) -> Segmentation:
        probability = answer.probability
        height, width = image.shape[:2]
        parts = probability.split(max(1, STRIP // width), 1) if height * width > LARGE else [probability]
        mask = torch.empty(height, width, dtype=torch.uint8)
        masks = mask.split(parts[0].shape[1])
        for part, place in zip(parts, masks, strict=True):
            place[:] = _mask_of(part)
        expected = [_expected_iou(parts, masks, n) for n in range(len(self.classes))]
        expected = [value for value in expected if value is not None]
        return Segmentation(
            name,
            image,
            mask.numpy(),
            dict(zip(self.classes, probability.numpy().astype(np.float32, copy=False), strict=True)),
            dict(zip(self.classes, answer.proportion.tolist(), strict=True)),
            sum(expected) / len(expected) if expected else 1.0,
            dict(zip(self.classes, answer.presence.tolist(), strict=True)),
            dict(zip(self.classes, (regions.numpy() for regions in answer.regions), strict=False)),
        )


def _mask_of(probability: Tensor) -> Tensor:
    """[N, h, W] → [h, W] uint8: the most probable class, where it is more probable than the background."""
    best, winner = probability.max(0)
    threshold = 0.5 if len(probability) == 1 else 1 - probability.sum(0)
    return torch.where(best > threshold, winner + 1, 0).to(torch.uint8)


def _expected_iou(probability: Sequence[Tensor], masks: Sequence[Tensor], n: int) -> float | None:
    """Σ p inside / (pixels inside + Σ p outside) of class n, over strips of an image; None if the mask has none of
    it."""
    inside = pixels = total = torch.zeros(())
    for part, mask in zip(probability, masks, strict=True):
        region = mask == n + 1
        inside, pixels, total = inside + (part[n] * region).sum(), pixels + region.sum(), total + part[n].sum()
    return float(inside / (pixels + total - inside).clamp_min(1e-12)) if pixels > 0 else None
