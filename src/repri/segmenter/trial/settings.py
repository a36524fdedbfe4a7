"""Settings of ``repri try``. Free of torch, because the command's flags are made from them."""

from __future__ import annotations

from dataclasses import dataclass

from repri.runtime.errors import RepriError

__all__ = ["TRIED", "TrialSettings"]

TRIED = ("auto", "told", "regions", "auto-ce", "auto-ce_h", "default", "forest", "prototype", "ce", "ce_h")
"""Names of the methods that can be tried."""


@dataclass(frozen=True)
class TrialSettings:
    """What is tried on each folder."""

    shots: tuple[int, ...] = (1, 2, 5)
    """Numbers of annotated images that are tried, with commas."""
    draws: int = 3
    """How often the support is drawn for each number of shots."""
    queries: int = 15
    """Number of other images that are segmented and scored in each draw, at most."""
    methods: tuple[str, ...] = ("auto", "forest")
    """Methods that are tried, with commas: auto, told (as auto, but it is told which classes each query shows),
    regions, auto-ce, auto-ce_h, default, forest, prototype, ce, ce_h."""
    scribbles: bool = False
    """Use simulated scribbles as the support instead of whole masks."""
    extractor: str = "default"
    """Extractor of all methods but forest: default (embedded), hub:NAME, …"""
    classes: tuple[str, ...] | None = None
    """Classes to use, with commas; default: all of them."""
    format: str | None = None
    """Format of the annotations, if it is not recognised."""
    images: str | None = None
    """Folder of the annotated images, if they are not beside the annotations."""
    seed: int = 0
    """Seed of the first draw; the next draws have the next numbers."""
    batch: int = 4
    """Number of images that are worked on at once."""
    output: str | None = None
    """Folder to write trial.json, curve.png, best.jpg, worst.jpg and index.html into."""

    def check(self) -> None:
        """Raise a RepriError for values that make no sense.

        Example:
            >>> TrialSettings(draws=0).check()
            Traceback (most recent call last):
            repri.runtime.errors.RepriError: --draws must be at least 1, got 0.
        """
        for name, most in (("draws", 1000), ("queries", None), ("batch", 10_000)):
            if getattr(self, name) < 1:
                raise RepriError(f"--{name} must be at least 1, got {getattr(self, name)}.")
            if most is not None and getattr(self, name) > most:
                raise RepriError(f"--{name} must be at most {most}, got {getattr(self, name)}.")
        if not self.shots or min(self.shots) < 1:
            raise RepriError(f"--shots takes numbers of at least 1, got {','.join(map(str, self.shots)) or 'none'}.")
        if not self.methods:
            raise RepriError(f"--methods names no method. Known: {', '.join(TRIED)}.")
        for name in self.methods:
            if name not in TRIED:
                raise RepriError(f"--methods: there is no method named {name!r} to try. Known: {', '.join(TRIED)}.")
        for name, values in (("shots", self.shots), ("methods", self.methods)):
            if len(set(values)) < len(values):
                raise RepriError(f"--{name} names {max(values, key=values.count)} twice: name each once.")
