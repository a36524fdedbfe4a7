"""``repri train``."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from math import inf
from pathlib import Path
from typing import Annotated, Any

import typer

from .common import Bars, counting, settings_of


def train(
    config: Annotated[Path | None, typer.Option(help="YAML with the settings, such as configs/tiny.yaml.")] = None,
    root: Annotated[Path | None, typer.Option(help="The data set's folder.")] = None,
    fold: Annotated[int | None, typer.Option(help="Whose classes are left out; replaces {fold} in --output.")] = None,
    weights: Annotated[str | None, typer.Option(help="Of the backbone: a file or known name.")] = None,
    output: Annotated[str | None, typer.Option(help="Folder of the run.")] = None,
    set: Annotated[list[str] | None, typer.Option(help="Any other setting: --set epochs=20")] = None,
    resume: Annotated[bool, typer.Option(help="Go on where the run in the folder was stopped.")] = False,
    dry_run: Annotated[bool, typer.Option(help="Check everything, measure three steps, estimate.")] = False,
    plot: Annotated[Path | None, typer.Option(help="Draw the log of a run folder as PNG, and stop.")] = None,
) -> None:
    """Train a feature extractor on base classes. Many processes: torchrun --nproc-per-node N -m repri train …"""
    if plot is not None:
        from repri.experiments.plots import plot_training

        typer.echo(f"written: {plot_training(plot)}")
        return
    from repri.runtime.distributed import default_device, world
    from repri.runtime.settings import parse, read_yaml
    from repri.training import Stopped, TrainConfig, prepare
    from repri.training import train as run

    flags = {"root": root and str(root), "fold": fold, "weights": weights, "output": output}
    values = read_yaml(config) if config else {}
    values |= {name: value for name, value in flags.items() if value is not None} | settings_of(set)
    if isinstance(values.get("output"), str):
        held_out = values.get("fold", 0)
        values["output"] = values["output"].replace("{fold}", "-all" if held_out is None else str(held_out))
    where = " ".join([str(config or "repri train"), *(f"--set {pair}" for pair in set or [])])
    resolved = parse(TrainConfig, values, where)
    with world() as here:
        device = default_device()
        bars = Bars() if here.first else None
        report = bars.show if bars else None
        try:
            with bars or nullcontext():
                plan = prepare(resolved, here, counting(bars), device)
                plan.check_folder(resume)
                if plan.skipped and here.first:
                    typer.echo(f"left out, cannot be read: {', '.join(plan.skipped)}", err=True)
                choose = resolved.protocol == "official" and resolved.stepwise
                select = _episodic(resolved, here, device) if choose else None
                if dry_run:
                    from repri.training.estimate import measure

                    if here.first:
                        plan.check_images(counting(bars, "read images"))
                    measured = measure(plan, here, report, device)
                else:
                    done = run(plan, here, resume, report, select, device)
        except Stopped as stopped:
            if here.first:
                typer.echo(f"{stopped}; go on with --resume", err=True)
            raise typer.Exit(143) from None
        if here.first and dry_run:
            print_plan(plan)
            typer.echo(measured)
        elif here.first:
            best = f"best {done.best:.1f}, " if resolved.protocol != "paper" and done.best > -inf else ""
            typer.echo(f"{best}written: {plan.folder / 'model.safetensors'}")


def print_plan(plan: Any) -> None:
    config, parameters = plan.config, list(plan.trainee.parameters())
    learned = sum(p.numel() for p in parameters if p.requires_grad)
    frozen = sum(p.numel() for p in parameters if not p.requires_grad)
    if plan.trainee.trunk is not None and not frozen:
        frozen = sum(p.numel() for part in _networks(plan.trainee.trunk) for p in part.parameters())
    lines = (
        f"{config.network}, protocol {config.protocol}, fold {config.fold}, {len(plan.classes)} base classes:",
        "  " + ", ".join(plan.classes),
        f"{len(plan.examples)} training images, {len(plan.validation)} for validation, side {plan.examples.size}",
        f"{learned / 1e6:.2f} M parameters learned, {frozen / 1e6:.2f} M frozen",
        f"{plan.steps_per_epoch} steps of {config.batch} images in an epoch, {plan.steps} in all"
        if config.stepwise
        else "one pass over the features, then algebra",
    )
    for line in lines:
        typer.echo(line)


def _networks(extractor: Any) -> list[Any]:
    """What an extractor runs, and the one under its head."""
    if hasattr(extractor, "under"):
        return [*_networks(extractor.under), extractor.head]
    return [extractor.run] if hasattr(extractor, "run") else []


def _episodic(config: Any, here: Any, device: str):
    """How the authors choose: few-shot tasks on the classes that are tested. All processes share one store, which
    goes when a network has been scored."""
    import shutil

    from repri.evaluation.evaluate import EvaluationConfig, evaluate, plan
    from repri.models import load_extractor

    planned = plan(
        EvaluationConfig(
            data=config.data,
            root=config.root,
            folds=(config.fold,),
            protocol="official",
            size=config.size,
            runs=1,
            tasks=config.selection_tasks,
        )
    )

    folder = Path(config.output).expanduser() / "selection"

    def score(trainee: Any) -> float:
        path = folder / f"model-{here.rank}.safetensors"
        trainee.export(path)
        load = partial(load_extractor, str(path), device=device)
        result = evaluate(planned, lambda fold: load(), here, store=folder)
        here.wait()
        shutil.rmtree(folder, ignore_errors=True)
        return result[1]["miou"]

    return score
