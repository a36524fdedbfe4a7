"""Settings of ``repri evaluate``, nested by subject. Free of torch, because the command's flags are made from them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from repri.methods.settings import MethodSettings
from repri.models.settings import ExtractorSettings

__all__ = ["RENAMED", "DataSettings", "EvaluationSettings", "TaskSettings"]


@dataclass(frozen=True)
class DataSettings:
    """The data set and its folds."""

    name: str = "pascal"
    """Data set whose folds are tested: pascal, coco, scenes or a YAML file."""
    root: str | None = None
    """Folder of the data set."""
    split: str = "val"
    """Split from which tasks are drawn."""
    folds: tuple[int, ...] | None = field(default=None, metadata={"flag": "fold", "none": "all"})
    """Folds to test, such as 0 or 0,2; all of them if it is not given."""
    test_data: str | None = None
    """Another data set to test on (pascal, for a model of coco)."""
    test_root: str | None = None
    """Folder of that other data set."""
    min_pixels: int = 2048
    """Pixels of a class that an image must have to count as an image of this class."""


@dataclass(frozen=True)
class TaskSettings:
    """The few-shot tasks."""

    shots: tuple[int, ...] = (1,)
    """Support images per task; several values, such as 1,5,10, give one result each."""
    runs: int = 5
    """Number of runs."""
    tasks: int = 1000
    """Tasks per run."""
    seed: int = 0
    """Seed of the task lists."""
    sampling: Literal["queries", "classes"] = "queries"
    """How tasks are drawn: from the list of query images in order, as the authors do, or evenly over classes."""
    task_list: str | None = None
    """File of `repri data tasks` to use instead of drawing tasks: one fold, its own shots and runs."""


@dataclass(frozen=True)
class EvaluationSettings:
    """Everything that decides a result."""

    data: DataSettings = field(default_factory=DataSettings)
    tasks: TaskSettings = field(default_factory=TaskSettings)
    extractor: ExtractorSettings = field(default_factory=ExtractorSettings)
    method: MethodSettings = field(default_factory=MethodSettings)
    protocol: str = "clean"
    """Protocol: clean, official or paper."""
    refine: str = "default"
    """Refinement of the masks' borders: none, guided, fine or regions; default: guided under clean, none under the
    others."""
    regions: str | None = None
    """Region model of the refinement regions: sam2-tiny, mobile-sam, hub:NAME or a folder; default: the first of them
    in the cache."""
    borders: bool = False
    """Also measure how well borders are followed (boundary F)."""
    precision: Literal["half", "single"] | None = None
    """Precision of stored features; default: half under clean and paper, single under official."""
    output: str | None = None
    """JSON file to write; with several numbers of shots, -5shot is added to its name."""


RENAMED = {
    "fold": "data.folds",
    "set": "method.settings",
    "settings": "method.settings",
    "form": "method.preset",
}
"""Settings of earlier files that have another name now."""
