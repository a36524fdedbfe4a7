"""The whole protocol: folds, shots, runs of tasks, one result for each number of shots."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from repri.data.datasets.dataset import Dataset
from repri.data.io.classes import among
from repri.data.tasks.tasks import TaskList
from repri.features.extractor import FeatureExtractor
from repri.features.store import FeatureStore
from repri.methods import LearnedMethod, Method, build_method
from repri.protocols import Protocol, get_protocol
from repri.runtime.distributed import World
from repri.runtime.memory import peak_memory

from .metrics import Counts
from .plan import Plan
from .results import make_result
from .runner import Outcome, Runner, images_of, run_tasks

__all__ = ["evaluate", "evaluate_folds"]

Report = Callable[[str, int, int, Counts | None], None]
"""Called with what is being done, how far, of how much, and the counts so far of a run of tasks."""


def evaluate(
    dataset: Dataset,
    tasks: TaskList,
    extractor: FeatureExtractor,
    method: str | Method = "repri",
    protocol: str | Protocol = "clean",
    refine: str | None = None,
    store: FeatureStore | None = None,
    progress: Callable[[int, int, Counts], None] | None = None,
) -> Outcome:
    """Score a method on a list of tasks.

    Args:
        dataset: The data set from which the tasks were drawn.
        tasks: The task list, such as :func:`repri.sample_tasks` draws it.
        extractor: The extractor.
        method: A method, or the name of one, which then takes the preset of the protocol or the extractor.
        protocol: ``clean``, ``official`` or ``paper``.
        refine: Refinement of the masks' borders; default: the protocol's. ``regions:NAME`` names a region model.
        store: Where features are kept; default: the user cache.
        progress: Called now and then with the number of scored tasks, their total, and the counts so far.

    Returns:
        The counts of every task; ``outcome.scores().miou`` is the mIoU in percent.
    """
    rules = get_protocol(protocol)
    store = store or FeatureStore(extractor, rules.resize, precision=rules.precision)
    if isinstance(method, str):
        method = build_method(method, rules.preset or extractor.default_preset)
    method.prepare(extractor)
    runner = Runner(dataset, method, store, rules, rules.refine if refine is None else refine)
    store.prepare(images_of(dataset, tasks))
    return run_tasks(runner, tasks, progress=progress)


def evaluate_folds(
    plan: Plan,
    extractor_for: Callable[[int], FeatureExtractor],
    world: World | None = None,
    report: Report | None = None,
    folder: Path | None = None,
) -> dict[int, dict[str, Any]]:
    """Run every fold and number of shots of a plan.

    Args:
        plan: The plan.
        extractor_for: Fold → extractor.
        world: The processes that share the work.
        report: Called as the work goes on.
        folder: Folder for features that nobody will want again; default: the user cache.

    Returns:
        Number of shots → content of its result file.
    """
    world = world or World()
    extractors = {fold: extractor_for(fold) for fold in plan.folds}
    preset = plan.preset(extractors)
    methods = {fold: plan.method(preset, fold) for fold in plan.folds}
    for fold, method in methods.items():
        method.prepare(extractors[fold])
    seen = _seen(plan, extractors, methods, world)
    shots_list = plan.settings.tasks.shots
    outcomes: dict[int, dict[int, Outcome]] = {shots: {} for shots in shots_list}
    seconds: dict[int, float] = dict.fromkeys(shots_list, 0.0)
    images = {
        fold: sorted({i for shots in shots_list for i in images_of(plan.dataset, plan.tasks[shots, fold])})
        for fold in plan.folds
    }
    extraction, facts = 0.0, {}
    for fold, extractor in extractors.items():
        size = plan.settings.extractor.size or _trained_size(methods[fold])
        store = FeatureStore(extractor, plan.protocol.resize, size, folder, precision=plan.precision)
        facts[fold] = {"name": extractor.name, "fingerprint": extractor.fingerprint[:16], "size": store.size}
        start = time.perf_counter()
        tell = (lambda a, b, fold=fold: report(f"features, fold {fold}", a, b, None)) if report else None
        store.prepare(images[fold], tell, world.share, max(map(len, images.values())))
        world.wait()
        extraction += time.perf_counter() - start
        runner = Runner(plan.dataset, methods[fold], store, plan.protocol, plan.refine, plan.settings.borders)
        for shots in shots_list:
            start, label = time.perf_counter(), f"fold {fold}, {shots}-shot"
            show = (lambda a, b, c, label=label: report(label, a, b, c)) if report else None
            outcomes[shots][fold] = run_tasks(runner, plan.tasks[shots, fold], world, show)
            seconds[shots] += time.perf_counter() - start
    results = {}
    for shots in shots_list:
        timing = _timing(plan, extraction, seconds[shots], world)
        more = {"extractor": facts, "seen": seen, "timing": timing} | _trained(methods)
        hashes = {fold: plan.tasks[shots, fold].hash for fold in plan.folds}
        config = _resolved(plan, shots, methods[plan.folds[0]], preset)
        results[shots] = make_result(config, outcomes[shots], hashes, dict(plan.dataset.classes), more)
    return results


def _resolved(plan: Plan, shots: int, method: Method, preset: str) -> dict[str, Any]:
    """Every setting as it was used."""
    values = asdict(plan.settings)
    values["tasks"]["shots"], values["data"]["folds"] = shots, plan.folds
    values["method"] |= {"settings": method.settings(), "preset": preset}
    return values | {"refine": plan.refine, "precision": plan.precision}


def _timing(plan: Plan, extraction: float, seconds: float, world: World) -> dict[str, float]:
    count = plan.settings.tasks.tasks * plan.settings.tasks.runs * len(plan.folds)
    return {
        "extraction_s": extraction,
        "tasks_s": seconds,
        "tasks_per_s": count / seconds,
        "processes": world.size,
        "peak_memory_gb": peak_memory(),
    }


def _trained_size(method: Method) -> int | None:
    """Long side of the images with which a method was trained, if its file says it."""
    made = method.training if isinstance(method, LearnedMethod) else None
    size = None if made is None else made.more.get("size")
    return size if isinstance(size, int) else None


def _trained(methods: Mapping[int, Method]) -> dict[str, Any]:
    """How the networks of the methods were trained, if they were."""
    facts = {fold: m.training for fold, m in methods.items() if isinstance(m, LearnedMethod) and m.training is not None}
    return {"trained": {fold: asdict(training) for fold, training in facts.items()}} if facts else {}


def _seen(
    plan: Plan, extractors: Mapping[int, FeatureExtractor], methods: Mapping[int, Method], world: World
) -> dict[int, list[str]]:
    """Fold → tested classes whose labels its extractor or its method was trained with, with a warning."""
    seen = {}
    for fold, extractor in extractors.items():
        method, classes = methods[fold], plan.classes(fold)
        told = {extractor.name: among(classes, extractor.seen), method.name: among(classes, method.seen)}
        seen[fold] = [name for name in classes if any(name in names for names in told.values())]
        for what, names in told.items():
            if names and world.first:
                other = "an extractor that was not, such as distilled" if what == extractor.name else "one that was not"
                warnings.warn(
                    f"Fold {fold} tests {', '.join(names)}, which are not novel to {what}: it was trained with their "
                    f"labels. Use {other}.",
                    stacklevel=3,
                )
    return seen
