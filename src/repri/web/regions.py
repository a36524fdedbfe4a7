"""The magic wand: region proposals, where a model for them is there."""

from __future__ import annotations

from importlib.util import find_spec

__all__ = ["why_no_regions"]


def why_no_regions() -> str | None:
    """Why there is no magic wand, in one sentence; None: there is one."""
    if find_spec("repri.regions") is None:
        return "The magic wand needs region proposals, which this version of repri does not have."
    return "The magic wand needs a model of region proposals, and none is loaded."
