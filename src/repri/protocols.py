"""The three protocols: what each one decides, from resizing an image to choosing an epoch.

``official`` repeats the authors' code number for number, ``paper`` follows the equations and sentences of the paper,
and ``clean`` is our own default: no leak of the query's ground truth, scores at the image's own size.
``docs/protocols.md`` explains every difference. Code asks a protocol's fields and never compares its name.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from repri.runtime.registry import Registry

__all__ = ["PROTOCOLS", "CellLabels", "Protocol", "Resize", "get_protocol"]

Resize = Literal["aspect", "square", "letterbox"]
"""How an image becomes the network's input.

``aspect``: the long side becomes ``size``; each side is padded to the network's multiple by repeating the edge.
``square``: both sides become ``size``. ``letterbox``: the long side becomes ``size`` floored to a multiple of 8, the
short side is scaled alike and floored too, and both are padded to ``size`` with black.
"""
CellLabels = Literal["area", "nearest"]
"""How a mask labels the cells of a feature map: by the fraction of the cell's area, or by the nearest pixel."""


@dataclass(frozen=True)
class Protocol:
    """One set of rules for inference, scoring and training."""

    name: str
    """Name in commands, settings and results."""
    preset: str | None
    """Inference preset; None: the one that suits the extractor."""
    resize: Resize
    """How images become the network's input."""
    cell_labels: CellLabels
    """How support masks label cells."""
    query_cells: Literal["content", "all", "labelled"]
    """Query cells that count in H, KL and π: those inside the image, all of them (padding too), or those that the
    ground truth labels, which leaks void pixels as the authors' code does."""
    scored_at: Literal["original", "network"]
    """Size at which the prediction is compared with the mask: the image's own, or the network's input."""
    upsampling: Literal["grid", "corners"]
    """How a map of cells becomes a map of pixels: each cell at its true place, or the outer cells on the outer
    pixels."""
    refine: str
    """Refinement of the probability maps, where they are scored at the image's own size."""
    precision: Literal["half", "single"]
    """Precision in which features are stored."""
    first_polygon_only: bool
    """COCO masks: only the first polygon of each object, without crowds, as the authors draw them."""
    swaps_cat_and_car: bool
    """COCO→PASCAL: the ids of cat and car are exchanged, as in the authors' lists."""
    void_is_background: bool
    """Base training: void pixels are labelled as background instead of being ignored."""
    vertical_flip: bool
    """Base training: images are also flipped upside down."""
    nesterov: bool
    """Base training: SGD uses Nesterov momentum."""
    final_lr: float
    """Base training: learning rate at the end of the cosine schedule."""
    smoothing_over_others: bool
    """Base training: label smoothing spreads ε over the C − 1 other classes instead of all C."""
    selection: Literal["base", "last", "novel"]
    """Base training: the best epoch is chosen by mIoU of the base classes, is the last one, or is chosen by few-shot
    tasks on the novel classes, which the authors do."""


_clean = Protocol(
    name="clean",
    preset=None,
    resize="aspect",
    cell_labels="area",
    query_cells="content",
    scored_at="original",
    upsampling="grid",
    refine="guided",
    precision="half",
    first_polygon_only=False,
    swaps_cat_and_car=False,
    void_is_background=False,
    vertical_flip=False,
    nesterov=False,
    final_lr=0.0,
    smoothing_over_others=False,
    selection="base",
)
_paper = replace(
    _clean,
    name="paper",
    preset="paper",
    resize="square",
    cell_labels="nearest",
    query_cells="all",
    scored_at="network",
    refine="none",
    selection="last",
)
_official = Protocol(
    name="official",
    preset="official",
    resize="letterbox",
    cell_labels="nearest",
    query_cells="labelled",
    scored_at="network",
    upsampling="corners",
    refine="none",
    precision="single",
    first_polygon_only=True,
    swaps_cat_and_car=True,
    void_is_background=True,
    vertical_flip=True,
    nesterov=True,
    final_lr=1e-6,
    smoothing_over_others=True,
    selection="novel",
)

PROTOCOLS = Registry[Protocol]("protocol", "repri.protocols")
for _protocol in (_clean, _paper, _official):
    PROTOCOLS.register(_protocol.name, _protocol)


def get_protocol(name: str | Protocol) -> Protocol:
    """The protocol of a name.

    Args:
        name: ``clean``, ``paper`` or ``official``; a protocol is returned as it is.

    Returns:
        The protocol.

    Example:
        >>> get_protocol("official").resize
        'letterbox'
        >>> get_protocol("cleen")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        repri.runtime.errors.RepriError: There is no protocol named 'cleen', did you mean 'clean'? Known: ...
    """
    return name if isinstance(name, Protocol) else PROTOCOLS[name]
