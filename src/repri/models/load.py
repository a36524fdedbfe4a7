"""From the name of an extractor, or from settings, to the extractor."""

from __future__ import annotations

import inspect
import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
import torch.nn as nn

from repri.features.extractor import FeatureExtractor
from repri.runtime.download import without_fetching
from repri.runtime.errors import RepriError
from repri.runtime.settings import parse, read_yaml

from .builders import build_trained
from .extractors.headed import HeadedExtractor
from .extractors.joint import JointExtractor
from .extractors.projected import ProjectedExtractor
from .extractors.scaled import ScaledExtractor
from .extractors.stitched import StitchedExtractor
from .heads.files import is_head, load_head
from .registry import EXTRACTORS, Builder
from .settings import ExtractorSettings, PartSettings

__all__ = ["EXTRACTORS", "build_extractor", "load_extractor", "named_by_a_file"]

MOST_PARTS, MOST_NESTED = 16, 3
"""Extractors that a .yaml file may join, and files that may name each other in turn."""
MACHINE = ("device", "fast", "compile")
"""Options that say how an extractor runs; builders that do not know them do not get them."""


def load_extractor(
    name: str | Path = "default",
    weights: str | Path | None = None,
    *,
    layers: Sequence[str | int] | None = None,
    combine: Literal["concat", "mean"] = "concat",
    head: nn.Module | None = None,
    shifts: int = 1,
    device: str | torch.device = "cpu",
    fast: bool = True,
    compile: bool = False,
    **architecture: Any,
) -> FeatureExtractor:
    """Load a frozen feature extractor.

    Args:
        name: One of

            - ``default``, the embedded model; ``default-fold0`` … ``default-fold3``, the same without labels of the
              classes that a fold of PASCAL-5i tests; ``twin`` and ``distilled``, its networks without a head, and so
              without labels of PASCAL;
            - ``pspnet-resnet50``, ``pspnet-resnet101``, ``pspnet-vgg16``, ``pspnet-vgg16_bn``,
              ``compact-efficientnet_lite0``, ``compact-mobilenet_v2``, or a backbone alone (``resnet50`` …);
            - ``hub:facebook/dinov2-small``, ``hub:FOLDER`` or just a folder, through transformers;
            - ``timm:resnet50d``;
            - ``filters`` and ``lowlevel``, which need no weights;
            - a ``.safetensors`` file that ``repri train`` wrote;
            - a ``.yaml`` file that lists several of these under ``parts``, each with its ``weights``, ``layers``,
              ``combine`` and ``shifts``, whose features are concatenated;
            - a name that :func:`~repri.models.registry.register_extractor` or another package has registered.
        weights: A file of a kind that ``repri.models.weights.checkpoints`` knows, or the name of weights that ``repri
            weights get`` has fetched. None leaves a network untrained, with a warning.
        layers: Layers by name or index: ``layer1`` … ``layer4``, ``bottleneck`` (the default of ``pspnet-…`` and
            ``compact-…``), ``stage1`` … of a hub model.
        combine: Whether several layers are concatenated or averaged.
        head: A module on top, with ``out_channels``.
        shifts: Number of shifted copies of an image along each side, for that many times finer features.
        device: Where the network runs.
        fast: Whether an equivalent, faster network runs: norms folded, pyramid factored, channels last.
        compile: Whether ``torch.compile`` is applied too: slow to start, worth it for thousands of images.
        **architecture: Options of the builder; for our networks ``stem`` ("deep" or "plain"; the weights tell it),
            ``stride_in`` ("3x3" or "1x1"), ``bn_eps`` and ``dilated``.

    Returns:
        The extractor.

    Example:
        >>> extractor = load_extractor("filters", shifts=2)
        >>> extractor.channels, extractor.stride
        (256, 2)
    """
    if not isinstance(name, str | Path):
        raise RepriError(f"An extractor has a name, such as 'default' or that of a file, got {type(name).__name__}.")
    if not str(name).strip():
        raise RepriError("No extractor is named: give a name, such as 'default', or a file.")
    given = {"weights": weights, "layers": layers, "combine": None if combine == "concat" else combine, **architecture}
    options = {option: value for option, value in given.items() if value is not None}
    options |= {"device": device, "fast": fast, "compile": compile}
    extractor = _call(str(name), _find(str(name)), options)
    if head is not None:
        extractor = HeadedExtractor(extractor, head)
    return extractor if shifts == 1 else StitchedExtractor(extractor, shifts)


def build_extractor(
    settings: ExtractorSettings, device: str | torch.device = "cpu", fold: int | None = None
) -> FeatureExtractor:
    """Build the extractor that settings describe.

    Args:
        settings: Name, weights and options. ``size`` is not used here: it belongs to the view of an image.
        device: Where the network runs.
        fold: Number that replaces ``{fold}`` in the name and the weights.

    Returns:
        The extractor.

    Example:
        >>> build_extractor(ExtractorSettings("default-fold{fold}"), fold=2).name
        'default-fold2'
    """
    name = _of_fold(settings.name or "default", fold)
    weights = None if settings.weights is None else _of_fold(settings.weights, fold)
    options: dict[str, Any] = {"layers": settings.layers, "combine": settings.combine, "shifts": settings.shifts}
    return load_extractor(name, weights, device=device, **options)


def _of_fold(text: str, fold: int | None) -> str:
    """A name with the number of the fold in place of ``{fold}``."""
    if fold is None and "{fold}" in text:
        raise RepriError(f"{text!r} depends on the fold, and no fold was given.")
    return text.replace("{fold}", str(fold))


def _find(name: str) -> Builder:
    """Builder of a name: a registered one, a scheme, a file by its suffix, or a model folder."""
    scheme, colon, rest = name.partition(":")
    if colon and f"{scheme}:" in EXTRACTORS:
        if not rest:
            raise RepriError(f"The extractor {name!r} needs the name of a model after the colon.")
        return partial(EXTRACTORS[f"{scheme}:"], rest)
    path = Path(name).expanduser()
    if name not in EXTRACTORS:
        if path.suffix in FILES:
            return partial(FILES[path.suffix], path)
        if path.is_dir():
            return partial(EXTRACTORS["hub:"], name, name=name)
        if name.startswith((".", "/", "~")):
            raise RepriError(f"There is no model folder at {name}.")
    return EXTRACTORS[name]


def _call(name: str, builder: Builder, options: dict[str, Any]) -> FeatureExtractor:
    """Call a builder with the options that it takes."""
    parameters = inspect.signature(builder).parameters.values()
    taken = {parameter.name for parameter in parameters}
    if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        for option in options:
            if option not in taken and option not in MACHINE:
                raise RepriError(f"The extractor {name!r} takes no option {option!r}.")
        options = {option: value for option, value in options.items() if option in taken}
    extractor = builder(**options)
    if not isinstance(extractor, FeatureExtractor):
        kind = type(extractor).__name__
        raise RepriError(
            f"The builder of the extractor {name!r} must return a FeatureExtractor, but returned a {kind}."
        )
    return extractor


def _build_file(path: Path, **options: Any) -> FeatureExtractor:
    """Build the network or the head that a ``.safetensors`` file holds."""
    builder = _build_head if is_head(path) else build_trained
    return _call(str(path), partial(builder, path), options)


def _build_head(
    path: Path,
    weights: str | Path | None = None,
    device: str | torch.device = "cpu",
    fast: bool = True,
    compile: bool = False,
) -> FeatureExtractor:
    """Build a trained head on the extractor that its file names; ``weights`` says where that one's weights are now."""
    head, base = load_head(path)
    options: dict[str, Any] = {"layers": base.get("layers"), "combine": base.get("combine", "concat")}
    options |= {"device": device, "fast": fast, "compile": compile}
    with _inside(path), named_by_a_file(path, base["name"]):
        under = load_extractor(base["name"], weights or base.get("weights"), **options)
    if under.identity != base.get("identity"):
        raise RepriError(
            f"The head in {path} was trained on another {base['name']} than the one that is here: its weights differ."
        )
    return HeadedExtractor(under, head, base.get("size"), rounds=True, seen=base.get("seen"))


def _build_joint(
    path: Path, device: str | torch.device = "cpu", fast: bool = True, compile: bool = False
) -> FeatureExtractor:
    """Build the extractors that a YAML file lists, side by side."""
    content = read_yaml(path)
    listed = content.get("parts")
    if set(content) != {"parts"} or not isinstance(listed, list) or not all(isinstance(part, dict) for part in listed):
        raise RepriError(f"{path} must have one key, parts, with a list of extractors such as {{name: resnet50}}.")
    if len(listed) > MOST_PARTS:
        raise RepriError(f"{path} lists {len(listed)} extractors under parts: {MOST_PARTS} is the most.")
    parts = [parse(PartSettings, part, f"{path}, part {number}") for number, part in enumerate(listed, 1)]
    with _inside(path):
        return JointExtractor([_build_part(part, device=device, fast=fast, compile=compile) for part in parts])


_OPEN: ContextVar[tuple[str, ...]] = ContextVar("files that are being loaded", default=())


@contextmanager
def _inside(path: Path) -> Generator[None]:
    """Refuse a file that names itself, through others too, and files that nest too deeply."""
    here, around = os.path.realpath(path), _OPEN.get()
    if here in around:
        raise RepriError(f"{path} names itself as the extractor that it is made of: name another one.")
    if len(around) >= MOST_NESTED:
        raise RepriError(f"{path} is named by {len(around)} files, one inside the other: name the extractor directly.")
    token = _OPEN.set((*around, here))
    try:
        yield
    finally:
        _OPEN.reset(token)


@contextmanager
def named_by_a_file(path: Path, name: str) -> Generator[None]:
    """Load a model that a file names only if it is here already.

    Args:
        path: The file.
        name: The extractor that it names.
    """
    remote = str(name).startswith(("hub:", "timm:"))
    try:
        with without_fetching():
            yield
    except RepriError as error:
        if not remote or "REPRI_FETCH" in str(error):
            raise
        raise RepriError(
            f"{path} belongs on {name}, which is not on this computer, and a file does not fetch a model by itself: "
            f"load {name} once yourself, or set REPRI_FETCH=1 if you trust the file. {error}"
        ) from None


def _build_part(settings: PartSettings, **machine: Any) -> FeatureExtractor:
    """Build one extractor of a joint one."""
    options = vars(settings) | machine
    factor, projected = options.pop("factor"), options.pop("projected")
    part = load_extractor(**options)
    part = part if factor == 1 else ScaledExtractor(part, factor)
    return ProjectedExtractor(part) if projected else part


FILES = {".safetensors": _build_file, ".yaml": _build_joint, ".yml": _build_joint}
"""Suffix of a file → its builder."""
