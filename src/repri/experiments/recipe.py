"""Recipes: what an item of the paper is made of. They are data; nothing here runs anything."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

__all__ = ["BUDGETS", "Budget", "Cell", "Data", "Item", "Kind", "Sweep", "Way"]

Data = Literal["pascal", "coco", "coco-pascal", "scenes"]
"""Data set of an item; ``coco-pascal`` is the domain shift."""
Kind = Literal["folds", "shots", "curve", "box", "speed", "maps", "panels", "choice", "list"]
"""What an item's output is: a table with a column for each fold, or for each number of shots; a curve over the values
of a setting; a box plot of δ; the table of speed; images; the settings that base classes choose; a plain list."""


@dataclass(frozen=True)
class Budget:
    """How much is computed."""

    name: str
    runs: int
    """Number of runs."""
    tasks: int
    """Tasks in each run."""
    about: str


BUDGETS = {
    budget.name: budget
    for budget in (
        Budget("full", 5, 1000, "the paper's 5 runs of 1000 tasks for each fold"),
        Budget("here", 1, 200, "1 run of 200 tasks for each fold, on the data that --root names"),
        Budget("quick", 1, 4, "1 run of 4 tasks for each fold, on generated scenes with a tiny extractor"),
    )
}


@dataclass(frozen=True)
class Way:
    """One row of a table: a method with its settings."""

    name: str
    """Name of the row, as the paper has it where the paper has the row."""
    method: str
    """Registered method."""
    settings: tuple[tuple[str, Any], ...] = ()
    """Single settings of the method that differ from the preset."""
    preset: str | None = None
    """Inference preset; None: the one of the protocol or the extractor."""
    options: tuple[tuple[str, Any], ...] = ()
    """Settings of the extractor that differ, such as its layers or its size."""
    variant: str | None = None
    """What replaces {variant} in the names of trained files."""

    def set(self, **settings: Any) -> Way:
        """The same way with other settings."""
        return replace(self, settings=tuple((dict(self.settings) | settings).items()))


@dataclass(frozen=True)
class Sweep:
    """A setting that takes one value after the other."""

    setting: str
    """Setting of the method."""
    label: str
    """Label of the axis."""
    full: tuple[Any, ...]
    here: tuple[Any, ...]
    quick: tuple[Any, ...]

    def values(self, budget: str) -> tuple[Any, ...]:
        """The values within a budget."""
        return getattr(self, budget)


@dataclass(frozen=True)
class Cell:
    """One evaluation: a way on the tasks of one fold."""

    data: Data
    way: Way
    shots: int
    fold: int
    runs: int
    tasks: int
    seed: int = 0
    split: str = "val"
    images: int | None = None
    """Images of each class from which tasks are drawn; None: all."""

    @property
    def label(self) -> str:
        """A short name for messages and files."""
        return f"{self.data} {self.way.name}, {self.shots}-shot, fold {self.fold}"


@dataclass(frozen=True)
class Item:
    """A table or a figure."""

    name: str
    alias: str
    """A second name that says what it is."""
    title: str
    kind: Kind
    data: Data
    ways: tuple[Way, ...]
    shots: tuple[int, ...]
    folds: tuple[int, ...] = (0, 1, 2, 3)
    paper: str | None = None
    """Published table to compare with."""
    sweep: Sweep | None = None
    notes: tuple[str, ...] = ()
    """What a reader should know."""
    split: str = "val"
    seed: int = 0
    here_folds: tuple[int, ...] | None = None
    """Folds of the budget ``here``; None: all."""
    extractor: str | None = None
    """Extractor of an item that is about a certain one."""

    def folds_of(self, budget: str, chosen: Sequence[int] | None = None) -> tuple[int, ...]:
        """The folds within a budget, or those that were chosen."""
        if chosen is not None:
            return tuple(fold for fold in self.folds if fold in chosen)
        if budget == "quick":
            return self.folds[:2]
        return self.here_folds if budget == "here" and self.here_folds is not None else self.folds

    def ways_of(self, budget: str) -> Iterator[Way]:
        """The ways, each with every value of the sweep."""
        for way in self.ways:
            if self.sweep is None:
                yield way
            else:
                for value in self.sweep.values(budget):
                    yield replace(way.set(**{self.sweep.setting: value}), name=f"{way.name} {value:g}")
