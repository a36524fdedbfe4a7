"""Few-shot tasks: drawn by a seed, saved, loaded and shown."""

from typing import TYPE_CHECKING

from repri.runtime.lazy import lazy_names

__all__ = ["Task", "TaskList", "load_tasks", "sample_tasks", "save_tasks", "task_sheet"]

if TYPE_CHECKING:
    from .sheet import task_sheet
    from .tasks import Task, TaskList, load_tasks, sample_tasks, save_tasks

__getattr__ = lazy_names(
    __name__,
    dict.fromkeys(("Task", "TaskList", "load_tasks", "sample_tasks", "save_tasks"), ".tasks")
    | {"task_sheet": ".sheet"},
)
