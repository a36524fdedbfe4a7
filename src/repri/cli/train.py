"""``repri train``."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from math import inf
from pathlib import Path
from typing import Annotated, Any

import typer

from repri.training.settings import RENAMED, TrainSettings

from .common import Bars, counting
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
) -> None:
    """Train a feature extractor on base classes. Many processes: torchrun --nproc-per-node N -m repri train …"""
    if plot is not None:
        from repri.experiments.plots import plot_training

        typer.echo(f"written: {plot_training(plot)}")
        return
    settings = resolve(TrainSettings, config, given, "repri train", RENAMED)
    fold = "-all" if settings.data.fold is None else str(settings.data.fold)
    _run(replace(settings, output=settings.output.replace("{fold}", fold)), resume, dry_run)


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
                select = _episodic(settings, here, device) if selection == "novel" and settings.stepwise else None
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


def _episodic(settings: TrainSettings, here: Any, device: str) -> Any:
    """The score by which the authors choose the best epoch: few-shot tasks on the classes that the fold tests.

    All processes use one feature store, which is removed when a network has been scored.
    """
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
