"""``repri evaluate``."""

from __future__ import annotations

from contextlib import nullcontext
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from repri.evaluation.settings import RENAMED, EvaluationSettings
from repri.runtime.errors import RepriError

from .common import Bars, MethodOptions, counting, method_settings, running
from .flags import resolve, settings_command

if TYPE_CHECKING:
    from collections.abc import Callable

    from repri.features import FeatureExtractor
    from repri.models.settings import ExtractorSettings

OF_A_LIST = ("shots", "runs", "tasks", "seed", "sampling")
"""Settings that a task list decides."""


@settings_command(EvaluationSettings)
def evaluate(config: Path | None, given: dict[str, Any], set: MethodOptions = None) -> None:
    """Evaluate a method by the few-shot protocol. Many processes: torchrun --nproc-per-node N -m repri evaluate …"""
    if set:
        given.setdefault("method", {})["settings"] = method_settings(set)
    settings = resolve(EvaluationSettings, config, given, "repri evaluate", RENAMED)
    drawn = given.get("tasks", {})
    if drawn.get("task_list") and (doubled := [name for name in OF_A_LIST if name in drawn]):
        raise RepriError(f"--{doubled[0]}: the task list {drawn['task_list']} says this itself; leave it out.")
    from repri.evaluation.plan import plan_evaluation
    from repri.evaluation.results import save_result
    from repri.evaluation.run import evaluate_folds
    from repri.runtime.distributed import world
    from repri.runtime.files import check_cache, check_writable
    from repri.runtime.memory import reuse_memory

    for path in _outputs(settings).values():
        check_writable(path)
    check_cache()
    reuse_memory()
    with world() as here:
        bars = Bars() if here.first else None
        _load_early(settings)
        with bars or nullcontext():
            plan = plan_evaluation(settings, counting(bars))
            extractors = _extractors(plan.settings.extractor)
            results = evaluate_folds(plan, extractors, here, running(bars) if bars else None)
        if here.first:
            from .tables import print_result

            for shots, result in results.items():
                print_result(result)
                if (path := _outputs(plan.settings).get(shots)) is not None:
                    save_result(result, path)
                    typer.echo(f"written: {path}")


def _outputs(settings: EvaluationSettings) -> dict[int, Path]:
    """Number of shots → file to write."""
    if settings.output is None:
        return {}
    path, shots = Path(settings.output).expanduser(), settings.tasks.shots
    if len(shots) == 1 or settings.tasks.task_list is not None:
        return dict.fromkeys(shots, path)
    return {k: path.with_name(f"{path.stem}-{k}shot{path.suffix or '.json'}") for k in shots}


def _load_early(settings: EvaluationSettings) -> None:
    """Load an extractor that all folds share: a wrong name or damaged file must not wait until masks are counted."""
    from repri.models.weights.embedded import embedded_head, embedded_path

    if settings.extractor.name is None:
        embedded_path()
        embedded_head("default")
    elif "{fold}" not in f"{settings.extractor.name} {settings.extractor.weights}":
        _extractors(settings.extractor)(0)


@cache
def _extractors(chosen: ExtractorSettings) -> Callable[[int], FeatureExtractor]:
    """Fold → extractor; the same one again where neither its name nor its weights depend on the fold."""
    from repri.models.load import build_extractor
    from repri.runtime.distributed import default_device

    fixed = "{fold}" not in f"{chosen.name} {chosen.weights}"

    @cache
    def load(fold: int | None) -> FeatureExtractor:
        return build_extractor(chosen, default_device(), fold)

    return lambda fold: load(None if fixed else fold)
