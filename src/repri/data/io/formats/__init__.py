"""Annotation formats, in and out: one module for each, and a registry that user code can add to."""

from typing import TYPE_CHECKING

from repri.runtime.lazy import lazy_names

__all__ = ["FORMATS", "Format", "detect_format", "read_annotated", "register_format", "write_annotated"]

if TYPE_CHECKING:
    from .registry import FORMATS, Format, detect_format, read_annotated, register_format, write_annotated

__getattr__ = lazy_names(__name__, dict.fromkeys(__all__, ".registry"))
