"""Results are data: one JSON per method, shots and protocol, from which tables and figures are drawn."""

from __future__ import annotations

import json
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from annotated_types import Len
from pydantic import Field
from typing_extensions import NotRequired, TypedDict

from repri.runtime.errors import RepriError
from repri.runtime.files import atomic
from repri.runtime.reading import read_json, short, validated

from .metrics import Counts, Scores, paired_interval, scores
from .runner import Outcome

__all__ = [
    "QUANTILES",
    "Comparison",
    "compare",
    "counts_of",
    "load_result",
    "make_result",
    "paired_difference",
    "save_result",
]

FORMAT = "repri-result-1"
QUANTILES = (5, 25, 50, 75, 95)
"""Percentages of the quantiles of δ in a result."""


Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Count = Annotated[int, Field(strict=True, ge=0, lt=2**53)]
Interval = Annotated[list[Number], Len(2, 2)]
Pixels = Annotated[list[Count], Len(4, 4)]
StoredTasks = TypedDict("StoredTasks", {"run": list[Count], "class": list[Count], "pixels": list[Pixels]})
"""The counts of a fold's tasks in a file."""


class StoredFold(TypedDict):
    """What is used of a fold in a file."""

    miou: Number
    tasks_hash: str


class StoredResult(TypedDict):
    """What is used of a result file."""

    miou: Number
    interval: Interval
    per_fold: Annotated[dict[str, StoredFold], Len(1)]
    protocol: str
    method: str
    shots: Annotated[int, Field(strict=True)]
    tasks: NotRequired[dict[str, StoredTasks]]


def make_result(
    config: dict[str, Any],
    outcomes: dict[int, Outcome],
    hashes: dict[int, str],
    names: dict[int, str],
    more: dict[str, Any],
) -> dict[str, Any]:
    """The content of a result file.

    Args:
        config: Every setting as it was used, nested as in ``EvaluationSettings``.
        outcomes: Fold → counts of its tasks.
        hashes: Fold → hash of its task list.
        names: Class id → name.
        more: Extractor, timings and other facts that are worth keeping.

    Returns:
        A mapping that :func:`save_result` writes as JSON.
    """
    import torch

    from repri import __version__

    per_fold, per_class, tasks, low, high = {}, {}, {}, [], []
    for fold, outcome in outcomes.items():
        scored = scores(outcome.counts)
        per_fold[str(fold)] = _fold_entry(outcome, scored, hashes[fold])
        per_class |= {names[c]: iou for c, iou in scored.per_class.items()}
        low.append(scored.miou - scored.interval[0])
        high.append(scored.interval[1] - scored.miou)
        tasks[str(fold)] = {
            "run": outcome.counts.run.tolist(),
            "class": outcome.counts.class_id.tolist(),
            "pixels": outcome.counts.pixels.tolist(),
        }
    miou = float(np.mean([fold["miou"] for fold in per_fold.values()]))
    # Folds are independent: the half-widths of their mean's interval add as squares do.
    spread = [float(np.sqrt(np.sum(np.square(side)))) / len(side) for side in (low, high)]
    runs = np.mean([fold["per_run"] for fold in per_fold.values()], 0)
    errors = np.concatenate([outcome.errors for outcome in outcomes.values()])
    borders = [fold["boundary_f"] for fold in per_fold.values() if "boundary_f" in fold]
    return {
        "format": FORMAT,
        "miou": miou,
        "fb_iou": float(np.mean([fold["fb_iou"] for fold in per_fold.values()])),
        "interval": [miou - spread[0], miou + spread[1]],
        "std_runs": float(np.std(runs, ddof=1)) if len(runs) > 1 else 0.0,
        **({"boundary_f": float(np.mean(borders))} if borders else {}),
        "per_fold": per_fold,
        "per_class": per_class,
        "proportion_error": proportion_error(errors),
        "protocol": config["protocol"],
        "method": config["method"]["name"],
        "shots": config["tasks"]["shots"],
        "config": config,
        **more,
        "versions": {
            "repri": __version__,
            "python": platform.python_version(),
            "torch": str(torch.__version__),
            "numpy": np.__version__,
        },
        "tasks": tasks,
    }


def _fold_entry(outcome: Outcome, scored: Scores, tasks_hash: str) -> dict[str, Any]:
    """What a result file says about one fold."""
    entry = {
        "miou": scored.miou,
        "fb_iou": scored.fb_iou,
        "interval": list(scored.interval),
        "std_runs": scored.std_runs,
        "per_run": scored.per_run,
        "tasks_hash": tasks_hash,
        "proportion_error": proportion_error(outcome.errors),
    }
    if outcome.borders is not None:
        entry["boundary_f"] = 100 * float(outcome.borders.mean())
    return entry


def proportion_error(errors: np.ndarray) -> dict[str, Any] | None:
    """Relative error δ of π at the start and at the end: medians of |δ| and of δ, mean and quantiles of δ; None if the
    method has no π."""
    if np.isnan(errors).all():
        return None
    size, signed = np.median(np.abs(errors), 0), np.median(errors, 0)
    names = ("initial", "final")
    quantiles, means = np.percentile(errors, QUANTILES, 0), errors.mean(0)
    return {name: float(size[i]) for i, name in enumerate(names)} | {
        key: value
        for i, name in enumerate(names)
        for key, value in (
            (f"{name}_signed", float(signed[i])),
            (f"{name}_mean", float(means[i])),
            (f"{name}_quantiles", quantiles[:, i].tolist()),
        )
    }


def save_result(result: dict[str, Any], path: Path) -> None:
    """Write a result as JSON, whole or not at all."""
    with atomic(path) as temporary:
        temporary.write_text(json.dumps(result))


def load_result(path: Path) -> dict[str, Any]:
    """Read and check a result file."""
    content = read_json(path)
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise RepriError(f"{path} is not a result written by `repri evaluate`.")
    for name in ("miou", "interval", "per_fold", "protocol", "method", "shots"):
        if name not in content:
            raise RepriError(f"{path} lacks {name!r}, which every result written by `repri evaluate` has.")
    validated(StoredResult, content, str(path))
    for fold, stored in content.get("tasks", {}).items():
        if not len(stored["run"]) == len(stored["class"]) == len(stored["pixels"]) > 0:
            raise RepriError(f"{path} was changed: the tasks of fold {short(fold)} do not have one line each.")
    if content["per_fold"].keys() != content.get("tasks", content["per_fold"]).keys():
        raise RepriError(f"{path} was changed: its tasks belong to other folds than its results.")
    return content


@dataclass(frozen=True)
class Comparison:
    """One result beside the first."""

    path: Path
    result: dict[str, Any]
    difference: tuple[float, float, float] | None
    """Its mIoU minus the first's, and the 95 % interval, on the same tasks. None for the first, for other tasks, and
    for a file whose ``tasks`` were removed to make it small."""


def compare(paths: list[Path], mixed: bool = False) -> list[Comparison]:
    """Compare results with the first of them.

    Args:
        paths: Result files.
        mixed: Whether different protocols or task lists are allowed; they have no interval then.

    Returns:
        One comparison for each file.
    """
    results = [load_result(path) for path in paths]
    first = results[0]
    compared = [Comparison(paths[0], first, None)]
    for path, result in zip(paths[1:], results[1:], strict=True):
        same = _hashes(result) == _hashes(first)
        for what, differs in (("protocol", result["protocol"] != first["protocol"]), ("task list", not same)):
            if differs and not mixed:
                raise RepriError(
                    f"{path} and {paths[0]} differ in their {what}, so they do not compare methods alone: "
                    "use --mixed to compare them all the same."
                )
        paired = same and "tasks" in first and "tasks" in result
        compared.append(Comparison(path, result, _difference(first, result) if paired else None))
    return compared


def _hashes(result: dict[str, Any]) -> dict[str, str]:
    return {fold: values["tasks_hash"] for fold, values in result["per_fold"].items()}


def _difference(first: dict[str, Any], second: dict[str, Any]) -> tuple[float, float, float]:
    return paired_difference([(counts_of(first, fold), counts_of(second, fold)) for fold in first["tasks"]])


def paired_difference(folds: Sequence[tuple[Counts, Counts]]) -> tuple[float, float, float]:
    """Mean over folds of the paired differences, and its 95 % interval.

    Args:
        folds: The counts of two methods on the same tasks, for each fold.

    Returns:
        The second's mIoU minus the first's, the lower and the upper end.
    """
    rows = [paired_interval(first, second) for first, second in folds]
    centre = float(np.mean([row[0] for row in rows]))
    below = np.sqrt(np.sum([(row[0] - row[1]) ** 2 for row in rows])) / len(rows)
    above = np.sqrt(np.sum([(row[2] - row[0]) ** 2 for row in rows])) / len(rows)
    return centre, centre - float(below), centre + float(above)


def counts_of(result: dict[str, Any], fold: str) -> Counts:
    """The counts of the tasks of a fold in a result file that has them."""
    tasks = result["tasks"][fold]
    return Counts(np.array(tasks["run"]), np.array(tasks["class"]), np.array(tasks["pixels"], np.int64))
