"""``repri train``."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from math import inf
from pathlib import Path
from typing import Annotated, Any

import typer

from repri.protocols import get_protocol
from repri.training.settings import RENAMED, TrainSettings

from .common import Bars, MethodOptions, counting, method_settings
from .flags import resolve, settings_command


@settings_command(TrainSettings)
def train(
    config: Path | None,
    given: dict[str, Any],
    resume: Annotated[bool, typer.Option(help="Go on with the run in the output folder.")] = False,
    dry_run: Annotated[
        bool, typer.Option(help="Check everything, measure three steps, and estimate the time.")
    ] = False,
    plot: Annotated[Path | None, typer.Option(help="Draw the log of a run's folder as PNG, and stop.")] = None,
    set: MethodOptions = None,
) -> None:
    """Train a feature extractor on base classes, or a method with episodes of base classes (--method). Many processes:
    torchrun --nproc-per-node N -m repri train …"""
    if plot is not None:
        from repri.experiments.plots import plot_training

        typer.echo(f"written: {plot_training(plot)}")
        return
    if set:
        given.setdefault("method", {})["settings"] = method_settings(set)
    _run(_of_fold(resolve(TrainSettings, config, given, "repri train", RENAMED)), resume, dry_run)


def _of_fold(settings: TrainSettings) -> TrainSettings:
    """The settings with the number of the fold in the output, and in the names of the network and its weights."""
    fold, network = settings.data.fold, settings.network
    output = settings.output.replace("{fold}", "-all" if fold is None else str(fold))
    name, weights = (text and text.replace("{fold}", str(fold)) for text in (network.name, network.weights))
    return replace(settings, output=output, network=replace(network, name=name or "", weights=weights))


def _run(settings: TrainSettings, resume: bool, dry_run: bool) -> None:
    """Train, or measure, and print what came out."""
    from repri.runtime.distributed import default_device, world
    from repri.training import Stopped, prepare
    from repri.training import train as run
    from repri.training.checks import check_folder
    from repri.training.estimate import measure

    selection = settings.selection
    with world() as here:
        device = default_device()
        bars = Bars() if here.first else None
        report = bars.show if bars else None
        try:
            with bars or nullcontext():
                plan = prepare(settings, here, counting(bars), device)
                check_folder(plan.target, resume)
                if plan.skipped and here.first:
                    typer.echo(f"left out, cannot be read: {', '.join(plan.skipped)}", err=True)
                select = _by_novel(plan, here, device) if selection == "novel" and settings.stepwise else None
                if dry_run:
                    if here.first:
                        plan.check_images(counting(bars, "read images"))
                    lines = [*plan.summary(), measure(plan, here, report, device)]
                else:
                    done = run(plan, here, resume, report, select, device)
                    best = f"best {done.best:.1f}, " if selection != "last" and done.best > -inf else ""
                    lines = [f"{best}written: {plan.target}"]
        except Stopped as stopped:
            if here.first:
                typer.echo(f"{stopped}; go on with --resume", err=True)
            raise typer.Exit(143) from None
        if here.first:
            for line in lines:
                typer.echo(line)


def _by_novel(plan: Any, here: Any, device: str) -> Any:
    """The score by which the authors choose the best epoch: few-shot tasks on the classes that the fold tests."""
    return _score_method(plan, here) if plan.settings.episodic else _score_network(plan.settings, here, device)


def _score_method(plan: Any, here: Any) -> Any:
    """The score of a method, by tasks of the shots with which it is trained."""
    from repri.data.datasets.index import class_index
    from repri.data.tasks.tasks import images_of, sample_tasks
    from repri.evaluation.metrics import running_miou
    from repri.evaluation.runner import Runner, run_tasks

    settings, dataset, store = plan.settings, plan.held_out, plan.validation.store
    drawn = (settings.episodes.train_shots, settings.validation.selection_tasks, 1, settings.seed, "classes")
    index = class_index(dataset, settings.data.min_pixels)
    tasks = sample_tasks(dataset, dataset.novel(settings.data.fold), *drawn, index)
    runner = Runner(dataset, plan.method, store, get_protocol(settings.protocol))

    def score(network: Any) -> float:
        store.prepare(images_of(dataset, tasks), mine=here.share)
        here.wait()
        return running_miou(run_tasks(runner, tasks, here).counts)

    return score


def _score_network(settings: TrainSettings, here: Any, device: str) -> Any:
    """The score of a network; all processes use one feature store, which is removed when a network has been scored."""
    import shutil

    from repri.evaluation import EvaluationSettings, evaluate_folds, plan_evaluation
    from repri.evaluation.settings import DataSettings, TaskSettings
    from repri.models import load_extractor
    from repri.models.settings import ExtractorSettings

    assert settings.data.fold is not None
    planned = plan_evaluation(
        EvaluationSettings(
            data=DataSettings(name=settings.data.name, root=settings.data.root, folds=(settings.data.fold,)),
            tasks=TaskSettings(runs=1, tasks=settings.validation.selection_tasks),
            extractor=ExtractorSettings(size=settings.data.size),
            protocol=settings.protocol,
        )
    )
    folder = Path(settings.output).expanduser() / "selection"

    def score(trainee: Any) -> float:
        path = folder / f"model-{here.rank}.safetensors"
        trainee.export(path)
        load = partial(load_extractor, str(path), device=device)
        result = evaluate_folds(planned, lambda fold: load(), here, folder=folder)
        here.wait()
        shutil.rmtree(folder, ignore_errors=True)
        return result[1]["miou"]

    return score
