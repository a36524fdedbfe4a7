"""The objective of the paper on one image: parts of the loss, a proportion that is told, a record of the steps."""

from __future__ import annotations

import base64
from dataclasses import asdict
from typing import Any, Literal

import numpy as np

from repri.segmenter.trace import trace, with_loss

from .limits import Refused
from .record import maps_of, png
from .session import Session

__all__ = ["Loss", "layers", "solve"]

Loss = Literal["initial", "ce", "ce_h", "full"]
LEAST = 1e-4
"""Smallest proportion that is told for a class that nobody has set."""


def layers(mask: np.ndarray, probability: np.ndarray | None) -> bytes:
    """What the page draws, as one PNG: labels in red, the probability of one class in green."""
    out = np.zeros((*mask.shape, 3), np.uint8)
    out[..., 0] = mask
    if probability is not None:
        out[..., 1] = probability
    return png(out)


def solve(session: Session, id: str, label: int, loss: Loss, proportion: float | None) -> dict[str, Any]:
    """Segment one image with a part of the objective, or with a proportion that is told.

    Args:
        session: The project.
        id: The image.
        label: The class whose proportion is told and whose steps are recorded.
        loss: The part of the objective.
        proportion: π of this class; None: it is estimated.

    Returns:
        Figures, the map for the page, and the values of every step.
    """
    fit = session.fit
    if fit is None:
        raise Refused(409, "Nothing is marked yet: draw on an object first.")
    if label not in fit.support.labels:
        raise Refused(409, "This class is not marked in any image yet.")
    name = fit.support.classes[fit.support.labels.index(label)]
    fitted = with_loss(fit.fitted, loss)
    told: float | dict[str, float] | None = proportion
    if proportion is not None and len(fitted.classes) > 1:
        told = _all_told(session.maps(id).record.proportions, name, proportion)
    result = session.segment(fitted, id, proportion=told)
    settings = session.project.settings
    maps = maps_of(result, fit.support, settings.threshold, fit.version, fit.stage, 0.0)
    steps = trace(fitted, session.cells.get(id, fitted.look), name, proportion)
    drawn = layers(maps.mask, maps.probabilities[label])
    return {
        **maps.record.content(),
        "loss": loss,
        "told": proportion,
        "layers": base64.b64encode(drawn).decode(),
        "steps": {key: [round(value, 5) for value in values] for key, values in asdict(steps).items()},
    }


def _all_told(estimated: dict[str, float], name: str, proportion: float) -> dict[str, float]:
    """A proportion of every class: the one that was told, and the estimates of the others in the room that is left."""
    others = {key: max(LEAST, value) for key, value in estimated.items() if key != name}
    room = min(1.0, (1 - proportion) * 0.99 / max(sum(others.values()), LEAST))
    return {key: proportion if key == name else others[key] * room for key in estimated}
