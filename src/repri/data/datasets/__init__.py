"""Data sets: images with masks, classes and folds."""

from typing import TYPE_CHECKING

from repri.runtime.lazy import lazy_names

__all__ = ["Dataset", "class_index", "class_lists", "open_dataset", "open_folder", "splits_of"]

if TYPE_CHECKING:
    from .dataset import Dataset
    from .folder import open_folder
    from .index import class_index, class_lists
    from .open import open_dataset, splits_of

__getattr__ = lazy_names(
    __name__,
    {
        "Dataset": ".dataset",
        "class_index": ".index",
        "class_lists": ".index",
        "open_dataset": ".open",
        "open_folder": ".folder",
        "splits_of": ".open",
    },
)
