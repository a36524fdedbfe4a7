"""The benchmarks, downloaded from their publishers and prepared."""

from typing import TYPE_CHECKING

from repri.runtime.lazy import lazy_names

__all__ = ["Downloads", "get_coco", "get_pascal"]

if TYPE_CHECKING:
    from .coco import get_coco
    from .downloads import Downloads
    from .pascal import get_pascal

__getattr__ = lazy_names(__name__, {"Downloads": ".downloads", "get_coco": ".coco", "get_pascal": ".pascal"})
