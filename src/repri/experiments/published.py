"""The paper's numbers, as they are printed in its tables."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from repri.runtime.errors import RepriError
from repri.runtime.reading import parse_yaml, read_text

__all__ = ["FOLDS", "Published", "WrongMean", "published", "published_names"]

FILE = Path(__file__).with_name("published.yaml")
FOLDS = (0, 1, 2, 3)
"""The folds of every table."""


@dataclass(frozen=True)
class WrongMean:
    """A printed mean that is not the mean of the printed folds."""

    method: str
    backbone: str
    shots: int
    printed: float
    """The mean in the paper."""
    folds: float
    """The mean of its folds."""


@dataclass(frozen=True)
class Published:
    """One table of the paper."""

    name: str
    source: str
    """Number of the table in the paper."""
    about: str
    """What it shows."""
    data: str
    """Data set: pascal, coco, or coco-pascal for the domain shift."""
    rows: tuple[dict[Any, Any], ...]
    """Rows as they are in the file: method, backbone, and the numbers of each number of shots."""
    notes: tuple[str, ...]
    """What a reader should know about these numbers."""
    means: tuple[WrongMean, ...]
    """Printed means that are not the mean of the printed folds."""

    def row(self, method: str, backbone: str = "ResNet-50") -> dict[Any, Any] | None:
        """The row of a method and a backbone; None if there is none."""
        return next((r for r in self.rows if (r["method"], r["backbone"]) == (method, backbone)), None)

    def value(self, method: str, shots: int, fold: int | None = None, backbone: str = "ResNet-50") -> float | None:
        """One number of the table.

        Args:
            method: Method as the paper calls it.
            shots: Number of shots.
            fold: Fold, or None for the mean as it is printed.
            backbone: Backbone.

        Returns:
            mIoU in percent, or None where the paper has none.

        Example:
            >>> published("table1").value("RePRI", 5), published("table1").value("RePRI", 1, fold=3)
            (66.8, 47.5)
        """
        numbers = (self.row(method, backbone) or {}).get(shots)
        if not isinstance(numbers, list):
            return numbers if fold is None else None
        return numbers[len(FOLDS) if fold is None else fold]

    def speed(self, method: str, shots: int) -> float | None:
        """Tasks per second of a method; None where the paper has none."""
        return (self.row(method) or {}).get("speed", {}).get(shots)


@cache
def _tables() -> dict[str, Published]:
    content = parse_yaml(read_text(FILE), FILE.name)
    return {
        name: Published(
            name=name,
            source=table["source"],
            about=table["about"],
            data=table["data"],
            rows=tuple(table["rows"]),
            notes=tuple(table["notes"]),
            means=tuple(WrongMean(**wrong) for wrong in table["means"]),
        )
        for name, table in content.items()
    }


def published_names() -> list[str]:
    """Names of the tables that are in the package."""
    return list(_tables())


def published(name: str) -> Published:
    """A table of the paper.

    Args:
        name: Name of the table: ``table1``, ``table3-pascal``, …

    Returns:
        The table.

    Example:
        >>> published("table5").source
        'Table 5'
    """
    tables = _tables()
    if name not in tables:
        raise RepriError(f"There is no published table named {name!r}. Known: {', '.join(tables)}.")
    return tables[name]
