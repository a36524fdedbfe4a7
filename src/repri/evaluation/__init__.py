"""§4: tasks are run, counted, and compared."""

from typing import TYPE_CHECKING

from repri.runtime.lazy import lazy_names

if TYPE_CHECKING:
    from .metrics import Counts, Scores, scores
    from .plan import Plan, plan_evaluation
    from .results import compare, load_result, save_result
    from .run import evaluate, evaluate_folds
    from .runner import Outcome
    from .settings import EvaluationSettings

__all__ = [
    "Counts",
    "EvaluationSettings",
    "Outcome",
    "Plan",
    "Scores",
    "compare",
    "evaluate",
    "evaluate_folds",
    "load_result",
    "plan_evaluation",
    "save_result",
    "scores",
]

__getattr__ = lazy_names(
    __name__,
    {
        **dict.fromkeys(("evaluate", "evaluate_folds"), ".run"),
        **dict.fromkeys(("Counts", "Scores", "scores"), ".metrics"),
        **dict.fromkeys(("Plan", "plan_evaluation"), ".plan"),
        **dict.fromkeys(("compare", "load_result", "save_result"), ".results"),
        "Outcome": ".runner",
        "EvaluationSettings": ".settings",
    },
)
