"""Settings of ``repri reproduce``. Free of torch, because flags of commands are made from them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from repri.models.settings import ExtractorSettings
from repri.protocols import get_protocol
from repri.runtime.errors import RepriError

from .recipe import BUDGETS, Budget, Data

__all__ = ["ReproduceSettings"]


@dataclass(frozen=True)
class ReproduceSettings:
    """What a person has: data, an extractor, trained methods; how much is computed, and where it is kept."""

    budget: Literal["full", "here", "quick"] = "here"
    """Amount of work: full (5×1000 tasks), here (few tasks) or quick (generated data)."""
    root: str | None = None
    """Folder of PASCAL VOC."""
    coco_root: str | None = None
    """Folder of COCO."""
    extractor: ExtractorSettings = field(default_factory=ExtractorSettings)
    """The extractor; without a name, the variant of the embedded model that has not seen the tested classes."""
    protocol: str = "clean"
    """Protocol: clean, official or paper."""
    preset: str | None = None
    """Inference preset of RePRI, such as original; by default the one of the protocol or the extractor."""
    heads: str | None = None
    """Trained networks of methods, such as runs/{method}-fold{fold}/method.safetensors. {method}, {variant} and {fold}
    are replaced."""
    folds: tuple[int, ...] | None = field(default=None, metadata={"flag": "fold"})
    """Folds to compute, such as 0 or 0,2; by default those of the recipe."""
    runs: int | None = None
    """Number of runs, instead of the budget's."""
    tasks: int | None = None
    """Tasks in each run, instead of the budget's."""
    images: int | None = None
    """Images of each class from which tasks of base classes are drawn; by default all."""
    output: str = "reproduced"
    """Folder of tables, figures and cells."""
    results: str = "results"
    """Folder of stored results, which count as computed."""

    def check(self) -> None:
        """Raise an error if a protocol or a preset is unknown, or a number is too small."""
        get_protocol(self.protocol)
        if self.preset is not None:
            from repri.inference import InferenceConfig  # late: it needs torch

            InferenceConfig.preset(self.preset)
        for name in ("runs", "tasks", "images"):
            if (value := getattr(self, name)) is not None and value < 1:
                raise RepriError(f"--{name} must be at least 1, got {value}.")

    @property
    def amount(self) -> Budget:
        """The budget with the numbers that were given."""
        given = {name: value for name in ("runs", "tasks") if (value := getattr(self, name)) is not None}
        return replace(BUDGETS[self.budget], **given)

    def root_of(self, data: Data) -> str | None:
        """The folder of a data set; None if it is not given."""
        return self.coco_root if data == "coco" else self.root

    def has(self, data: Data) -> bool:
        """Whether the data set can be read."""
        return data == "scenes" or self.root_of(data) is not None
