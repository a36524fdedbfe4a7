"""Hyper-parameters of the inference and the named protocols that fix them."""

from __future__ import annotations

import dataclasses
import difflib
from typing import Any, Literal

__all__ = ["InferenceConfig"]


@dataclasses.dataclass(frozen=True)
class InferenceConfig:
    """Everything that decides the result of :func:`repri.inference.infer` besides its tensors.

    The classifier is ``s = sigmoid(l)`` with ``l = τ·cos(z, w) − b`` when ``bias_unit`` is
    ``"logit"`` and ``l = τ·[cos(z, w) − b]`` (the paper's form) when it is ``"cosine"``.

    Gradient step ``t = 0 … steps − 1`` goes from θ⁽ᵗ⁾ to θ⁽ᵗ⁺¹⁾.
    """

    steps: int = 50
    """Gradient steps."""
    lr: float = 0.025
    """Step size of plain gradient descent on (w, b)."""
    temperature: float = 20.0
    """τ."""
    lambda_h: float | None = None
    """Weight of the entropy H; None is transduction/K."""
    lambda_kl: float | None = None
    """Weight of KL(p̂‖π); None is transduction/K. With 0, π is never re-estimated."""
    transduction: float = 1.0
    """What the query weighs beside the support, where ``lambda_h`` and ``lambda_kl`` are None."""
    kl_increase: float = 1.0
    """Added to ``lambda_kl`` from the first re-estimation of π on."""
    t_pi: int | tuple[int, ...] | None = 10
    """When π is re-estimated from p̂ (Eq. 3): one time, several, or None for never."""
    schedule: Literal["authors", "paper"] = "authors"
    """``"paper"`` is Eq. 3 to the letter: π becomes p̂ of θ⁽ᵗπ⁾ and is used for t > t_π, while
    λ_KL grows at t ≥ t_π. ``"authors"`` is their code: after step number t_π − 1 (so from
    θ⁽ᵗπ⁻¹⁾), π and λ_KL change together; t_π = 1 never happens."""
    bias_unit: Literal["logit", "cosine"] = "logit"
    """Whether b is subtracted from τ·cos or from cos: with one step size the second moves the
    boundary τ² times faster."""
    bias_over: Literal["valid", "all", "none"] = "valid"
    """Query pixels whose mean score is b⁽⁰⁾: the valid ones, or padding too; none starts from ``start_bias``."""
    start_bias: float = 0.0
    """With ``bias_over="none"``: b⁽⁰⁾ of one shot. Above 0, cells are background until they are rather nearer to w."""
    shots_bias: float = 0.0
    """With ``bias_over="none"``: this, times 1 − 1/K, is added to b⁽⁰⁾. A mean over K shots is less noisy than one
    shot's, so its cosines with anything are larger, also with what is not the object."""
    background: Literal["none", "support", "both", "known"] = "none"
    """A prototype v of the background, learned too: the logit becomes τ·[cos(z, w) − cos(z, v)] − b. It starts
    from the support's background; from halfway between it and the query pixels' mean (``both``), each weighted by its
    probability of being background under the former; or from it and what base training knows of backgrounds, which
    counts as one more shot (``known``)."""
    prototype: Literal["foreground", "pixels"] = "foreground"
    """w⁽⁰⁾ is the sum of unit foreground features over the number of foreground pixels, or (the
    paper's form) over all K·|Ψ| labelled pixels. The direction is the same; a shorter w turns
    faster."""
    epsilon: float = 0.0
    """Added inside logarithms of probabilities and to π: 0, which means stable exact forms, or ≥ 1e-30."""
    needs_proportion: bool = False
    """The oracle's settings: without a known proportion they are an error, not another method."""

    def __post_init__(self) -> None:
        def require(ok: bool, name: str, rule: str) -> None:
            if not ok:
                raise ValueError(f"{name} must be {rule}, got {getattr(self, name)!r}")

        def number(name: str, low: float, open_low: bool = False) -> None:
            value = getattr(self, name)
            ok = isinstance(value, (int, float)) and not isinstance(value, bool)
            ok = ok and -1e300 < value < 1e300 and (value > low if open_low else value >= low)
            require(ok, name, f"a finite number {'>' if open_low else '≥'} {low:g}")

        require(_is_count(self.steps), "steps", "an integer ≥ 0")
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
        """A protocol (``clean``, ``paper``, ``official``; ``original``, which is ``clean`` with the authors'
        classifier; ``trained`` and ``discriminant``, which are ``clean`` for base-trained features), a variant of
        ``clean`` (``oracle``, ``ce``, ``ce_h``), or both joined by a hyphen (``official-oracle``, ``paper-ce``).

        >>> InferenceConfig.preset("official").steps
        49
        >>> InferenceConfig.preset("paper-ce").lambda_kl
        0.0
        """
        if isinstance(name, str) and name in _PRESETS:
            return _PRESETS[name]
        raise ValueError(f"unknown preset {name!r}{_nearest(str(name), list(_PRESETS))}; known: {', '.join(_PRESETS)}")

    def replace(self, **changes: Any) -> InferenceConfig:
        """A copy with some fields changed.

        >>> InferenceConfig.preset("clean").replace(t_pi=20).t_pi
        20
        """
        known = [field.name for field in dataclasses.fields(self)]
        for name in changes:
            if name not in known:
                raise ValueError(
                    f"unknown inference setting {name!r}{_nearest(name, known)}; known: {', '.join(known)}"
                )
        return dataclasses.replace(self, **changes)

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
    return f" (did you mean {close[0]!r}?)" if close else ""


def _presets() -> dict[str, InferenceConfig]:
    original = InferenceConfig()
    clean = original.replace(background="both", bias_over="none", transduction=5.0, lr=0.005)
    paper = original.replace(bias_unit="cosine", prototype="pixels", schedule="paper")
    official = original.replace(steps=49, bias_over="all", epsilon=1e-10)
    presets = {}
    for protocol, base in {
        "": clean,
        "clean": clean,
        "original": original,
        "trained": clean.replace(background="support", transduction=1.0),
        "discriminant": clean.replace(background="known", transduction=1.0, shots_bias=1.5),
        "paper": paper,
        "official": official,
    }.items():
        known_pi = base.replace(lambda_kl=1.0, lambda_h=0.1, lr=0.025, t_pi=None, needs_proportion=True)
        variants = {
            "": base,
            "oracle": known_pi.replace(steps=299 if protocol == "official" else 300),
            "ce": base.replace(lambda_kl=0.0, lambda_h=0.0),
            "ce_h": base.replace(lambda_kl=0.0),
        }
        for variant, config in variants.items():
            presets["-".join(part for part in (protocol, variant) if part)] = config
    del presets[""]
    return presets


_PRESETS = _presets()
