"""Files in and out: images, masks, annotations and their formats. It knows nothing of data sets."""

from typing import TYPE_CHECKING

from repri.runtime.lazy import lazy_names

__all__ = [
    "IGNORE",
    "AnnotatedImage",
    "Annotations",
    "Shape",
    "find_queries",
    "read_annotated",
    "read_image",
    "read_mask",
    "register_format",
    "write_annotated",
    "write_mask",
]

if TYPE_CHECKING:
    from .annotations import AnnotatedImage, Annotations, Shape
    from .formats import read_annotated, register_format, write_annotated
    from .images import read_image
    from .masks import IGNORE, read_mask, write_mask
    from .queries import find_queries

__getattr__ = lazy_names(
    __name__,
    {
        "IGNORE": ".masks",
        "AnnotatedImage": ".annotations",
        "Annotations": ".annotations",
        "Shape": ".annotations",
        "find_queries": ".queries",
        "read_annotated": ".formats",
        "read_image": ".images",
        "read_mask": ".masks",
        "register_format": ".formats",
        "write_annotated": ".formats",
        "write_mask": ".masks",
    },
)
