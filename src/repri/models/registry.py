"""Extractors by name: those of this package, of user code, and of other packages. Free of torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from repri.runtime.registry import Registry

if TYPE_CHECKING:
    from repri.features.extractor import FeatureExtractor

__all__ = ["EXTRACTORS", "Builder", "register_extractor"]

Builder = Callable[..., "FeatureExtractor"]
"""Function that builds an extractor. Its parameters are the options that the extractor takes."""

EXTRACTORS: Registry[Builder] = Registry("extractor", "repri.extractors")
"""Name → builder. Our own builders are in ``repri.models.builders``; other packages add theirs by entry points of the
group ``repri.extractors``."""


def register_extractor(name: str, about: str = "") -> Callable[[Builder], Builder]:
    """Register a function that builds an extractor, so that :func:`repri.load_extractor` knows it by name.

    The function declares the options that it takes as its parameters, each with a default: any of ``weights``,
    ``layers``, ``combine``, ``device``, ``fast``, ``compile``, and options of its own. Other options are refused,
    except ``device``, ``fast`` and ``compile``, which are left out.

    Args:
        name: Name of the extractor. A name that ends with a colon is a scheme, such as ``hub:``: the function gets the
            rest of the name as its first argument.
        about: One line on the extractor.

    Returns:
        A decorator that leaves the function as it is.

    Example:
        >>> from repri import load_extractor
        >>> from repri.models.extractors.filters import FilterBank
        >>> @register_extractor("coarse-filters", "colour and texture at stride 8")
        ... def build(channels=64):
        ...     return FilterBank(channels, stride=8)
        >>> load_extractor("coarse-filters", channels=32).channels
        32
    """
    return EXTRACTORS.decorator(name, about)
