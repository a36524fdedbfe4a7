"""What happens during the steps on one query: the terms of the objective, π and p̂ at every step."""

from __future__ import annotations

from dataclasses import dataclass, replace

from repri.inference import InferenceConfig, infer
from repri.methods import RePRI
from repri.runtime.errors import RepriError

from .fitted import Fitted
from .look import Seen

__all__ = ["LOSSES", "Trace", "trace", "with_loss"]

LOSSES = ("initial", "ce", "ce_h", "full")
"""Before the first step; cross-entropy; with the entropy of the query; with the proportion too."""


@dataclass(frozen=True)
class Trace:
    """One number for each step."""

    ce: list[float]
    """Cross-entropy on the support."""
    entropy: list[float]
    """Entropy of the query."""
    kl: list[float]
    """KL(p̂‖π)."""
    loss: list[float]
    """The weighted sum of the three."""
    marginal: list[float]
    """p̂: the predicted proportion of the object."""
    proportion: list[float]
    """π: the expected proportion of the object."""


def with_loss(fitted: Fitted, loss: str) -> Fitted:
    """The same segmenter with a part of the objective (the ablation of §4.2).

    Args:
        fitted: The segmenter.
        loss: ``initial``, ``ce``, ``ce_h`` or ``full``.

    Returns:
        A segmenter whose expert on objects is fitted with this loss.
    """
    if loss not in LOSSES:
        raise RepriError(f"There is no loss named {loss!r}. Known: {', '.join(LOSSES)}.")
    if loss == "full":
        return fitted
    method = _repri(fitted)
    config = {
        "initial": method.config.replace(steps=0, oracle_steps=0),
        "ce": method.config.without("h", "kl"),
        "ce_h": method.config.without("kl"),
    }[loss]
    return replace(fitted, classifier=replace(fitted.classifier, method=RePRI(f"repri-{loss}", config)))


def trace(fitted: Fitted, seen: Seen, name: str, proportion: float | None = None) -> Trace:
    """Record the steps of the expert on objects on one query.

    Args:
        fitted: The segmenter.
        seen: The cells of the query.
        name: The class; where there are several, it is recorded against everything else.
        proportion: Known proportion of the class.

    Returns:
        The values at every step.
    """
    if name not in fitted.classes:
        raise RepriError(f"There is no class {name!r}; the segmenter has {', '.join(fitted.classes)}.")
    config: InferenceConfig = _repri(fitted).config
    if proportion is not None:
        config = config.oracle()
    features, labels = fitted.classifier.supports[fitted.classes.index(name)].stacked
    sets = (features[None], labels[None], seen.features[None])
    out = infer(*sets, config, seen.valid[None], proportion, background=fitted.classifier.background, history=True)
    if out.history is None:
        return Trace([], [], [], [], [], [])
    steps = out.history
    columns = (steps.ce, steps.entropy, steps.kl, steps.loss, steps.marginal, steps.proportion)
    return Trace(*(column[:, 0].tolist() for column in columns))


def _repri(fitted: Fitted) -> RePRI:
    method = fitted.classifier.method
    if not isinstance(method, RePRI):
        raise RepriError(f"The method {method.name} has no terms of RePRI's objective.")
    return method
