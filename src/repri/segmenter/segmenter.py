"""The object that is fitted to a few annotated images."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from numbers import Integral
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from repri.features.extractor import FeatureExtractor
from repri.inference import InferenceConfig
from repri.methods import Method, build_method
from repri.methods.repri import RePRI
from repri.models import StitchedExtractor, load_extractor
from repri.refine import Staged, get_refiner, refine_name
from repri.runtime.errors import RepriError
from repri.runtime.reading import short

from .classify import shots_of
from .experts.blend import Choice
from .experts.choose import choose
from .experts.compare import Compare
from .experts.textures import SMALL
from .fitted import Fitted
from .inputs import ImageLike, check_names, load_shots
from .logistic import make_classifier
from .look import CLEAN, Look, Seen

__all__ = ["Segmenter"]


class Segmenter:
    """Segments images by a few annotated ones.

    The parameters are kept as they are given, so that ``get_params``, ``set_params`` and scikit-learn's ``clone`` work.

    Args:
        extractor: A name for :func:`repri.load_extractor`, or an extractor; default: the embedded model.
        method: Name of a method, or the file of a trained one; default: RePRI.
        config: Settings of the method: the name of a preset, an :class:`repri.InferenceConfig`, or changes to the
            preset that suits the extractor; the key ``preset`` names another one.
        size: Long side in pixels at which images are looked at; default: the extractor's own.
        shifts: Number of shifted copies of an image along each side: finer features, for the square of the time.
        device: Device of the extractor, if it is given by name.
        refine: Refinement of the masks' borders: ``guided`` (they follow the image's edges), ``fine``, ``none``, or
            ``regions`` (masks follow whole objects; needs a region model and several seconds an image).
        mirror: Whether the result is averaged over the image and its mirror image, for twice the time.
        scales: Factors of the size over which the result is averaged.
        tile: Images whose long side is larger are looked at in overlapping tiles of this many pixels, which share one
            classifier; None: always as a whole.
        joint: Whether several classes compete in one classifier; else each is fitted on its own, and the most
            probable one wins.
        auto: Whether the support chooses the weight of the expert on textures and the size, with the methods ``repri``,
            ``ce_h`` and ``ce``; ``fitted.choice`` says what was chosen. Otherwise there is only the expert on objects.
        textures: Weight of the expert on textures, 0 to 1, instead of the one that the support would choose.
        weights: File of the method's trained network, for a method that is given by name.
        regions: Region model for ``refine="regions"``: ``sam2-tiny``, ``mobile-sam``, ``hub:NAME`` or a folder;
            default: the first of them in the cache.

    Example:
        >>> image = np.zeros((64, 64, 3), np.uint8)
        >>> image[16:40, 16:40] = (200, 30, 30)
        >>> fitted = Segmenter("filters").fit(image, image[..., 0] > 0)
        >>> result = fitted.segment(image)
        >>> result.mask.shape, result.classes
        ((64, 64), ('object',))
    """

    def __init__(
        self,
        extractor: str | Path | FeatureExtractor = "default",
        *,
        method: str = "repri",
        config: str | InferenceConfig | Mapping[str, Any] | None = None,
        size: int | None = None,
        shifts: int = 1,
        device: str = "cpu",
        refine: str = CLEAN.refine,
        mirror: bool = False,
        scales: Sequence[float] = (1.0,),
        tile: int | None = None,
        joint: bool = True,
        auto: bool = True,
        textures: float | None = None,
        regions: str | None = None,
        weights: str | Path | None = None,
    ):
        self.extractor, self.method, self.config = extractor, method, config
        self.size, self.shifts, self.device = size, shifts, device
        self.refine, self.mirror, self.scales, self.tile, self.joint = refine, mirror, scales, tile, joint
        self.auto, self.textures, self.regions, self.weights = auto, textures, regions, weights
        self._loaded: tuple[tuple[Any, ...], FeatureExtractor] | None = None
        self._check()

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters by name, as scikit-learn's estimators give them."""
        names = list(inspect.signature(type(self).__init__).parameters)[1:]
        return {name: getattr(self, name) for name in names}

    def set_params(self, **params: Any) -> Segmenter:
        """Change parameters; returns the segmenter itself."""
        known = self.get_params()
        for name, value in params.items():
            if name not in known:
                raise RepriError(f"A Segmenter has no parameter {name!r}. Known: {', '.join(known)}.")
            setattr(self, name, value)
        self._check()
        return self

    def __repr__(self) -> str:
        defaults = {name: p.default for name, p in inspect.signature(type(self).__init__).parameters.items()}
        given = {name: value for name, value in self.get_params().items() if value is not defaults[name]}
        return f"Segmenter({', '.join(f'{name}={value!r}' for name, value in given.items())})"

    @property
    def feature_extractor(self) -> FeatureExtractor:
        """The extractor, which is loaded when it is first needed."""
        wanted = (self.extractor, self.shifts, self.device)
        if self._loaded is None or self._loaded[0] != wanted:
            extractor = self.extractor
            if not isinstance(extractor, FeatureExtractor):
                extractor = load_extractor(extractor, device=self.device)
            if self.shifts != 1:
                extractor = StitchedExtractor(extractor, self.shifts)
            self._loaded = (wanted, extractor)
        return self._loaded[1]

    @property
    def inference(self) -> Method:
        """The method with its settings."""
        return _method(self.method, self.config, self.feature_extractor, self.weights)

    def fit(
        self,
        images: ImageLike | Sequence[ImageLike] | Mapping[str, Any],
        masks: Any = None,
        *,
        boxes: Any = None,
        scribbles: Any = None,
        classes: Sequence[str] | None = None,
    ) -> Fitted:
        """Take the annotated images.

        Args:
            images: One or several; for several classes ``{"cat": images, "dog": images}``.
            masks: Files or arrays alike: 0 background, 1 the object (or 1 … N the ``classes``), 255 unlabelled. In
                masks of the two levels 0 and 255, 255 is the object.
            boxes: Instead of masks: for each image (left, top, right, bottom) in pixels, or several of them.
            scribbles: Instead of masks: for each image an array with 1 on the object, 0 on the background, 255
                elsewhere.
            classes: Names of the classes; default ``("object",)``.

        Returns:
            The fitted segmenter, which never changes.
        """
        names, arrays, maps = load_shots(images, {"masks": masks, "boxes": boxes, "scribbles": scribbles}, classes)
        return self.fit_maps(arrays, maps, names)

    def fit_maps(
        self,
        images: Sequence[np.ndarray],
        maps: Sequence[np.ndarray],
        classes: Sequence[str],
        seen: Callable[[int, Look], Seen] | None = None,
    ) -> Fitted:
        """Take annotated images as arrays.

        Args:
            images: K arrays [H, W, 3] uint8.
            maps: K arrays [H, W] with 0 … N and 255, or soft values of one class.
            classes: Names of the N classes.
            seen: Gives the cells of image k under a look, if they are kept somewhere; default: they are computed.

        Returns:
            The fitted segmenter.
        """
        names = check_names(classes)
        for n, name in enumerate(names, 1):
            if not any(_shows(mask, n, len(names)) for mask in maps):
                raise RepriError(f"No mask shows {name!r}: mark it in at least one image.")
        look, method = self._look(), self.inference
        choice, textures = Choice(), None
        # Regions come after everything that is compared, and would take seconds for every part of it.
        refine = CLEAN.refine if isinstance(get_refiner(self._refine), Staged) else self._refine
        compare = Compare(look, SMALL, images, maps, len(names), method, self.joint, refine)
        if self.textures is not None or (self.auto and isinstance(method, RePRI)):
            choice, textures = choose(compare, self.textures, fixed_size=self.size is not None)
        if choice.size is not None:
            look = replace(look, size=choice.size)
        plain = Look(look.extractor, look.size)
        cells = [compare.seen(k, look.size) if seen is None else seen(k, plain) for k in range(len(images))]
        shots = shots_of(cells, maps, len(names), method.needs_masks)
        classifier = make_classifier(choice.logistic, shots, len(names), method, look.extractor, self.joint)
        return Fitted(names, look, classifier, self.refinement(choice), self.get_params(), choice, textures)

    @classmethod
    def load(
        cls, path: str | Path, extractor: str | Path | FeatureExtractor | None = None, device: str = "cpu"
    ) -> Fitted:
        """A fitted segmenter that :meth:`Fitted.save` wrote.

        Args:
            path: The file.
            extractor: The extractor, if the file does not name one that can be loaded here.
            device: Device of an extractor that is given by name.

        Returns:
            The fitted segmenter, which gives the same masks to the bit.
        """
        from .files import load_fitted

        return load_fitted(Path(path).expanduser(), extractor, device)

    def segment(self, *arguments: Any, **options: Any) -> NoReturn:
        """Not possible before :meth:`fit`."""
        raise RepriError("This Segmenter has no support: call fit and use the fitted segmenter that it returns.")

    segment_many = segment

    def refinement(self, choice: Choice) -> str:
        """The refinement of a fitted segmenter: the one that suits the objects, unless regions are asked for."""
        return self._refine if isinstance(get_refiner(self._refine), Staged) else choice.refine or self._refine

    @property
    def _refine(self) -> str:
        """The refinement with its region model."""
        return refine_name(self.refine, None if self.regions is None else str(self.regions))

    def _look(self) -> Look:
        extractor = self.feature_extractor
        size = extractor.rule.size if self.size is None else self.size
        for name, value, least in (("size", size, extractor.stride), ("tile", self.tile, 2 * extractor.stride)):
            if value is not None and not (isinstance(value, Integral) and value >= least):
                raise RepriError(f"{name} must be at least {least} pixels, got {short(value)}.")
        return Look(extractor, size, self.mirror, tuple(self.scales), self.tile)

    def _check(self) -> None:
        """Mistakes that can be seen without the extractor."""
        if not isinstance(self.refine, str):
            raise RepriError(f"refine is a name such as 'guided' or 'none', got {self.refine!r}.")
        get_refiner(self._refine)
        try:
            fit = bool(self.scales) and all(0 < scale < 100 for scale in self.scales)
        except TypeError:
            fit = False
        if not fit:
            raise RepriError(f"scales must be factors above 0, got {short(self.scales)}.")
        if self.textures is not None and not (isinstance(self.textures, int | float) and 0 <= self.textures <= 1):
            raise RepriError(f"textures is a weight between 0 and 1, got {self.textures!r}.")
        if self.config is not None and not isinstance(self.config, (str, Mapping, InferenceConfig)):
            raise RepriError(f"config must be a preset's name, an InferenceConfig or changes, got {self.config!r}.")


def _method(
    name: str,
    config: str | InferenceConfig | Mapping[str, Any] | None,
    extractor: FeatureExtractor,
    weights: str | Path | None,
) -> Method:
    """The method with the settings that a user gave."""
    if isinstance(config, InferenceConfig):
        method: Method = RePRI(name, config)
    else:
        changes = {"preset": config} if isinstance(config, str) else dict(config or {})
        method = build_method(name, changes.pop("preset", extractor.default_preset), changes, weights)
    method.prepare(extractor)
    if method.oracle:
        raise RepriError(f"{name} must be told the true proportion: use repri, and give proportion= where it is known.")
    if isinstance(method, RePRI) and method.config.background == "known" and extractor.background is None:
        raise RepriError(
            f"The presets discriminant and joint need an extractor that knows the direction of backgrounds, and "
            f"{extractor.name} does not: only extractors with a discriminant head do."
        )
    return method


def _shows(mask: np.ndarray, n: int, classes: int) -> bool:
    """Whether a mask shows class n."""
    if classes == 1:
        return bool(((mask > 0) & (mask != 255)).any())
    return bool((mask == n).any())
