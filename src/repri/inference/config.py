"""Settings of the inference and the presets that fix them."""

from __future__ import annotations

import dataclasses
import difflib
from typing import Any, Literal

from repri.runtime.errors import RepriError

__all__ = ["PRESETS", "InferenceConfig"]


MOST_STEPS = 100_000
"""Steps that one inference may have; the presets have at most 300."""


@dataclasses.dataclass(frozen=True)
class InferenceConfig:
    """Everything that decides the result of :func:`repri.inference.infer` besides its tensors.

    The classifier is ``s = sigmoid(l)`` with ``l = τ·cos(z, w) − b`` when ``bias_unit`` is
    ``"logit"`` and ``l = τ·[cos(z, w) − b]`` (the paper's equation) when it is ``"cosine"``.

    Gradient step ``t = 0 … steps − 1`` goes from θ⁽ᵗ⁾ to θ⁽ᵗ⁺¹⁾.

    Example:
        >>> config = InferenceConfig.preset("clean").replace(steps=100)
        >>> config.steps, config.without("kl").lambda_kl, config.oracle().lambda_kl
        (100, 0.0, 1.0)
    """

    steps: int = 50
    """Number of gradient steps."""
    lr: float = 0.025
    """Step size of plain gradient descent on (w, b)."""
    temperature: float = 20.0
    """Temperature τ of the cosine classifier."""
    lambda_h: float | None = None
    """Weight of the entropy H; None means transduction/K."""
    lambda_kl: float | None = None
    """Weight of KL(p̂‖π); None means transduction/K. With 0, π is never re-estimated."""
    transduction: float = 1.0
    """Weight of the query relative to the support, used where ``lambda_h`` and ``lambda_kl`` are None."""
    kl_increase: float = 1.0
    """Amount that is added to ``lambda_kl`` from the first re-estimation of π on."""
    t_pi: int | tuple[int, ...] | None = 10
    """Step at which π is re-estimated from p̂ (Eq. 3); several steps, or None for never."""
    schedule: Literal["authors", "paper"] = "authors"
    """``"paper"`` is Eq. 3 to the letter: π becomes p̂ of θ⁽ᵗπ⁾ and is used for t > t_π, while
    λ_KL grows at t ≥ t_π. ``"authors"`` is their code: after step number t_π − 1 (so from
    θ⁽ᵗπ⁻¹⁾), π and λ_KL change together; t_π = 1 never happens."""
    bias_unit: Literal["logit", "cosine"] = "logit"
    """Whether b is subtracted from τ·cos or from cos. With one step size the second moves the
    boundary τ² times faster."""
    bias_over: Literal["valid", "all", "none"] = "valid"
    """Query cells whose mean score is b⁽⁰⁾: the valid ones, or the padding too. ``none`` starts from ``start_bias``."""
    start_bias: float = 0.0
    """With ``bias_over="none"``: b⁽⁰⁾ of one shot. A value above 0 makes more cells background at the start."""
    shots_bias: float = 0.0
    """With ``bias_over="none"``: this number times 1 − 1/K is added to b⁽⁰⁾. The mean over K shots is less noisy than
    one shot, so its cosines are larger with every cell, also with cells that do not show the object."""
    background: Literal["none", "support", "both", "known"] = "none"
    """Prototype v of the background, which is learned too: the logit becomes τ·[cos(z, w) − cos(z, v)] − b. It starts
    from the support's background (``support``); from halfway between it and the mean of the query cells, each
    weighted by its probability of being background (``both``); or from it and the background that base training
    knows, which counts as one more shot (``known``)."""
    prototype: Literal["foreground", "pixels"] = "foreground"
    """w⁽⁰⁾ is the sum of unit foreground features divided by the number of foreground cells, or (as in the
    paper) by all K·|Ψ| labelled cells. The direction is the same; a shorter w turns faster."""
    epsilon: float = 0.0
    """Number added inside logarithms of probabilities and to π: 0, which uses stable exact formulas, or at least
    1e-30."""
    oracle_steps: int = 300
    """Number of gradient steps when the proportion is known (see :meth:`oracle`)."""
    needs_proportion: bool = False
    """True for the oracle: it is an error to run it without a known proportion."""

    def __post_init__(self) -> None:
        def require(ok: bool, name: str, rule: str) -> None:
            if not ok:
                raise RepriError(f"{name} must be {rule}, got {getattr(self, name)!r}.")

        def number(name: str, low: float, open_low: bool = False) -> None:
            value = getattr(self, name)
            ok = isinstance(value, (int, float)) and not isinstance(value, bool)
            ok = ok and -1e300 < value < 1e300 and (value > low if open_low else value >= low)
            require(ok, name, f"a finite number {'>' if open_low else '≥'} {low:g}")

        for name in ("steps", "oracle_steps"):
            value = getattr(self, name)
            require(_is_count(value) and value <= MOST_STEPS, name, f"an integer from 0 to {MOST_STEPS:,}")
        number("lr", 0.0)
        number("temperature", 0.0, open_low=True)
        number("kl_increase", 0.0)
        number("start_bias", 0.0)
        number("shots_bias", 0.0)
        number("transduction", 0.0)
        number("epsilon", 0.0)
        require(self.epsilon == 0 or self.epsilon >= 1e-30, "epsilon", "0 or at least 1e-30")
        for name in ("lambda_h", "lambda_kl"):
            if getattr(self, name) is not None:
                number(name, 0.0)
        if isinstance(self.t_pi, list):  # YAML has no tuples
            object.__setattr__(self, "t_pi", tuple(self.t_pi))
        times = self.t_pi if isinstance(self.t_pi, tuple) else () if self.t_pi is None else (self.t_pi,)
        require(all(_is_count(t) and t >= 1 for t in times), "t_pi", "None, an integer ≥ 1 or several")
        for name, choices in (
            ("schedule", ("authors", "paper")),
            ("bias_unit", ("logit", "cosine")),
            ("bias_over", ("valid", "all", "none")),
            ("background", ("none", "support", "both", "known")),
            ("prototype", ("foreground", "pixels")),
        ):
            require(getattr(self, name) in choices, name, " or ".join(map(repr, choices)))

    @classmethod
    def preset(cls, name: str) -> InferenceConfig:
        """The settings of a preset.

        Args:
            name: ``clean``, ``original`` (``clean`` with the authors' classifier), ``trained``, ``discriminant`` and
                ``joint`` (``clean`` for base-trained features), ``learned`` (for
                :func:`repri.inference.adapt`), ``paper`` or ``official``.

        Returns:
            The settings; :meth:`oracle` and :meth:`without` derive the variants of the paper's tables.

        Example:
            >>> InferenceConfig.preset("official").steps
            49
        """
        if isinstance(name, str) and name in PRESETS:
            return PRESETS[name]
        raise RepriError(
            f"There is no preset named {name!r}{_nearest(str(name), list(PRESETS))} Known: {', '.join(PRESETS)}."
        )

    def replace(self, **changes: Any) -> InferenceConfig:
        """A copy with some fields changed.

        Args:
            **changes: New values by field name.

        Returns:
            The changed settings.

        Example:
            >>> InferenceConfig.preset("clean").replace(t_pi=20).t_pi
            20
        """
        known = [field.name for field in dataclasses.fields(self)]
        for name in changes:
            if name not in known:
                raise RepriError(
                    f"There is no inference setting named {name!r}{_nearest(name, known)} Known: {', '.join(known)}."
                )
        return dataclasses.replace(self, **changes)

    def oracle(self) -> InferenceConfig:
        """The same classifier with a known proportion: λ_KL = 1, λ_H = 0.1, ``oracle_steps`` steps, π fixed (§4.3).

        Returns:
            Settings that need ``proportion=`` in :func:`repri.inference.infer`.
        """
        known = {"lambda_kl": 1.0, "lambda_h": 0.1, "lr": 0.025, "t_pi": None, "needs_proportion": True}
        return self.replace(**known, steps=self.oracle_steps)

    def without(self, *terms: str) -> InferenceConfig:
        """The same objective without some of its terms (the ablation of §4.2).

        Args:
            *terms: ``"h"`` for the entropy, ``"kl"`` for the proportion.

        Returns:
            The changed settings.

        Example:
            >>> InferenceConfig.preset("paper").without("h", "kl").lambda_h
            0.0
        """
        for term in terms:
            if term not in ("h", "kl"):
                raise RepriError(f"The terms that can be left out are 'h' and 'kl', got {term!r}.")
        return self.replace(**{f"lambda_{term}": 0.0 for term in terms})

    @property
    def bias_slope(self) -> float:
        """dβ/db, where the logit is τ·cos − β."""
        return self.temperature if self.bias_unit == "cosine" else 1.0

    def reestimations(self) -> frozenset[int]:
        """The t at whose θ⁽ᵗ⁾ the marginal p̂ becomes the new π, ``t = steps`` being the last θ."""
        times = self.t_pi if isinstance(self.t_pi, tuple) else () if self.t_pi is None else (self.t_pi,)
        shift = 1 if self.schedule == "authors" else 0
        return frozenset(t - shift for t in times if t - shift >= 1)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _nearest(name: str, known: list[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    return f", did you mean {close[0]!r}?" if close else "."


def _presets() -> dict[str, InferenceConfig]:
    original = InferenceConfig()
    clean = original.replace(background="both", bias_over="none", transduction=5.0, lr=0.005)
    discriminant = clean.replace(background="known", transduction=1.0, shots_bias=1.5)
    return {
        "clean": clean,
        "original": original,
        "trained": clean.replace(background="support", transduction=1.0),
        "discriminant": discriminant,
        "joint": discriminant.replace(start_bias=0.5, shots_bias=0.625),
        "learned": original.replace(background="support", steps=10, t_pi=5, lr=0.4, bias_over="none"),
        "paper": original.replace(bias_unit="cosine", prototype="pixels", schedule="paper"),
        "official": original.replace(steps=49, oracle_steps=299, bias_over="all", epsilon=1e-10),
    }


PRESETS = _presets()
"""Preset → settings; ``docs/protocols.md`` says how each was chosen."""
