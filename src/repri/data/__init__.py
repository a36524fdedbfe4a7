"""§4: images and masks in files, data sets with folds, and few-shot tasks."""

from typing import TYPE_CHECKING

from repri.runtime.lazy import lazy_names

__all__ = [
    "EXAMPLES",
    "Dataset",
    "Example",
    "Task",
    "TaskList",
    "load_example",
    "load_tasks",
    "open_dataset",
    "read_annotated",
    "read_image",
    "read_mask",
    "register_format",
    "sample_tasks",
    "save_tasks",
    "write_annotated",
    "write_mask",
]

if TYPE_CHECKING:
    from .datasets import EXAMPLES, Dataset, Example, load_example, open_dataset
    from .io import read_annotated, read_image, read_mask, register_format, write_annotated, write_mask
    from .tasks import Task, TaskList, load_tasks, sample_tasks, save_tasks

__getattr__ = lazy_names(
    __name__,
    dict.fromkeys(("EXAMPLES", "Dataset", "Example", "load_example", "open_dataset"), ".datasets")
    | dict.fromkeys(("Task", "TaskList", "load_tasks", "sample_tasks", "save_tasks"), ".tasks")
    | dict.fromkeys(
        ("read_annotated", "read_image", "read_mask", "register_format", "write_annotated", "write_mask"), ".io"
    ),
)
