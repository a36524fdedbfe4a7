"""What the inference returns."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from repri.runtime.errors import RepriError

from .backends.passes import direction
from .config import InferenceConfig

__all__ = ["InferenceResult", "Step"]


class Step(NamedTuple):
    """Values of step t at θ⁽ᵗ⁾; in ``InferenceResult.history`` every field has one more axis, t, first."""

    ce: Tensor
    """[T] CE."""
    entropy: Tensor
    """[T] H."""
    kl: Tensor
    """[T] KL(p̂‖π)."""
    loss: Tensor
    """[T] CE + λ_H·H + λ_KL·KL with this step's λ."""
    marginal: Tensor
    """[T] p̂₁."""
    proportion: Tensor
    """[T] π₁ used by this step."""
    prototype: Tensor
    """[T, C] w⁽ᵗ⁾."""
    bias: Tensor
    """[T] b⁽ᵗ⁾."""


@dataclass(frozen=True, eq=False)
class InferenceResult:
    """The classifier of each task after the last step, and its prediction for the query."""

    prototype: Tensor
    """[T, C] w."""
    bias: Tensor
    """[T] b, in the unit of ``config.bias_unit``."""
    background: Tensor | None
    """[T, C] v, of configurations with a background prototype."""
    proportion: Tensor
    """[T] π₁: as given, or as estimated last."""
    query_logits: Tensor
    """[T, h, w] foreground logits of the query."""
    probability: Tensor
    """[T, h, w] foreground probability of the query."""
    initial_probability: Tensor
    """[T, h, w] the same before the first step."""
    area_weighted: Tensor
    """[T] bool: the support's object was too small for nearest downsampling, so each cell was labelled by the fraction
    of it that the object covers."""
    config: InferenceConfig
    """Settings of the inference."""
    history: Step | None = None
    """Record of every step, if it was asked for."""

    def to_dtype(self, dtype: torch.dtype) -> InferenceResult:
        if self.bias.dtype == dtype:
            return self
        names = ["prototype", "bias", "proportion", "query_logits", "probability", "initial_probability"]
        names += [] if self.background is None else ["background"]
        history = None if self.history is None else Step(*(x.to(dtype) for x in self.history))
        return replace(self, **{name: getattr(self, name).to(dtype) for name in names}, history=history)

    def logits(self, features: Tensor) -> Tensor:
        """Foreground logits of other features under the same classifiers.

        Args:
            features: [T, …, C, h, w]: the query at another resolution, or other images of the same tasks. T may be left
                out when it is 1.

        Returns:
            [T, …, h, w] logits.
        """
        tasks, channels = self.prototype.shape
        if not isinstance(features, Tensor) or features.ndim < 3 or features.shape[-3] != channels:
            got = list(features.shape) if isinstance(features, Tensor) else type(features).__name__
            raise RepriError(f"features must be a tensor [T, …, C, h, w] with C = {channels}, got {got}")
        if features.ndim > 3 and len(features) != tasks:
            raise RepriError(f"features hold {len(features)} tasks and the classifier {tasks}")
        if features.ndim == 3 and tasks != 1:
            raise RepriError(f"features [C, h, w] fit one task and the classifier holds {tasks}: add the T axis")
        dtype = torch.promote_types(self.prototype.dtype, features.dtype)
        with torch.autocast(features.device.type, enabled=False):
            beta = (self.bias * self.config.bias_slope).to(dtype)
            unit = direction(self.prototype.to(dtype), None if self.background is None else self.background.to(dtype))
            flat = features.detach().flatten(-2).to(dtype)  # [T, …, C, N]
            if features.ndim > 3:
                middle = [1] * (flat.ndim - 3)
                unit = unit.reshape(tasks, *middle, 1, channels)
                beta = beta.reshape(tasks, *middle, 1)
            norm = torch.linalg.vector_norm(flat, dim=-2)
            if not norm.isfinite().all():
                raise RepriError(
                    "features hold NaN or Inf (or values beyond 1e18): check the feature extractor's output"
                )
            cosine = (unit @ flat).squeeze(-2) / torch.where(norm > 0, norm, 1)
            return (self.config.temperature * cosine - beta).unflatten(-1, features.shape[-2:])
