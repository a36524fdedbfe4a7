"""The road from an image to labelled cells: extractor, view, labels, store."""

from typing import TYPE_CHECKING

from repri.runtime.lazy import lazy_names

if TYPE_CHECKING:
    from .extractor import FeatureExtractor, InputRule, features_of, fingerprint_of
    from .grid import Grid
    from .labels import cell_labels, cell_weights, proportion_of
    from .store import FeatureStore
    from .view import View

__all__ = [
    "FeatureExtractor",
    "FeatureStore",
    "Grid",
    "InputRule",
    "View",
    "cell_labels",
    "cell_weights",
    "features_of",
    "fingerprint_of",
    "proportion_of",
]

__getattr__ = lazy_names(
    __name__,
    {
        **dict.fromkeys(("FeatureExtractor", "InputRule", "features_of", "fingerprint_of"), ".extractor"),
        **dict.fromkeys(("cell_labels", "cell_weights", "proportion_of"), ".labels"),
        "FeatureStore": ".store",
        "Grid": ".grid",
        "View": ".view",
    },
)
