"""Data sets: images with masks, classes and folds."""

from typing import TYPE_CHECKING

from repri.runtime.lazy import lazy_names

__all__ = [
    "EXAMPLES",
    "Dataset",
    "Example",
    "class_index",
    "class_lists",
    "load_example",
    "open_dataset",
    "open_folder",
    "splits_of",
]

if TYPE_CHECKING:
    from .dataset import Dataset
    from .examples import EXAMPLES, Example, load_example
    from .folder import open_folder
    from .index import class_index, class_lists
    from .open import open_dataset, splits_of

__getattr__ = lazy_names(
    __name__,
    {
        "EXAMPLES": ".examples",
        "Dataset": ".dataset",
        "Example": ".examples",
        "class_index": ".index",
        "class_lists": ".index",
        "load_example": ".examples",
        "open_dataset": ".open",
        "open_folder": ".folder",
        "splits_of": ".open",
    },
)
