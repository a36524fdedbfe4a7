"""Pictures and masks on their way to a network: read, checked and resized ahead of their use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from .dataset import Dataset
from .parallel import parallel
from .resize import Resized, ResizeRule, resize

__all__ = ["load"]


def load(
    dataset: Dataset,
    ids: Iterable[str],
    rule: ResizeRule = "clean",
    size: int = 417,
    multiple: int | None = None,
    workers: int | None = None,
) -> Iterator[tuple[str, Resized]]:
    """(id, :class:`~repri.data.resize.Resized`) in the order of ``ids``, whatever the number of workers."""

    def one(id: str) -> tuple[str, Resized]:
        return id, resize(*dataset.pair(id), rule, size, multiple)

    return parallel(one, ids, workers)
