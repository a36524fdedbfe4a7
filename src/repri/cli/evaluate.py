"""``repri evaluate`` and ``repri compare``."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from .common import Bars, counting, settings_of


def evaluate(
    data: Annotated[str | None, typer.Option(help="pascal, coco or a YAML file.")] = None,
    root: Annotated[Path | None, typer.Option(help="The data set's folder.")] = None,
    test_data: Annotated[str | None, typer.Option(help="Test on another data set: pascal for coco.")] = None,
    test_root: Annotated[Path | None, typer.Option(help="Its folder.")] = None,
    split: Annotated[str | None, typer.Option(help="Default: val.")] = None,
    fold: Annotated[str | None, typer.Option(help="0, 1, …, several with commas, or all (default).")] = None,
    shots: Annotated[str | None, typer.Option(help="1 (default), or several: 1,5,10.")] = None,
    method: Annotated[str | None, typer.Option(help="repri (default), repri-oracle, ce, ce_h, prototype.")] = None,
    protocol: Annotated[str | None, typer.Option(help="clean (default), official or paper.")] = None,
    extractor: Annotated[
        str | None,
        typer.Option(help="Default: the embedded model. A name, hub:NAME, a folder, a trained file; with {fold}."),
    ] = None,
    weights: Annotated[str | None, typer.Option(help="A file or known name; {fold} is replaced.")] = None,
    layers: Annotated[str | None, typer.Option(help="Of the extractor, with commas: -1 or -3,-1.")] = None,
    shifts: Annotated[int | None, typer.Option(help="2: twice as fine features, in four times the time.")] = None,
    size: Annotated[int | None, typer.Option(help="Long side in pixels.")] = None,
    runs: Annotated[int | None, typer.Option(help="Default: 5.")] = None,
    tasks: Annotated[int | None, typer.Option(help="Per run; default: 1000.")] = None,
    seed: Annotated[int | None, typer.Option(help="Of the task lists.")] = None,
    sampling: Annotated[str | None, typer.Option(help="queries (default) or classes.")] = None,
    min_pixels: Annotated[
        int | None, typer.Option(help="Of a class in an image that counts for it; default: 2048.")
    ] = None,
    task_list: Annotated[Path | None, typer.Option(help="A file of `repri data tasks`, instead of drawing.")] = None,
    precision: Annotated[str | None, typer.Option(help="Of stored features: half (default) or single.")] = None,
    set: Annotated[list[str] | None, typer.Option(help="A method's setting: --set lr=0.05 --set delta=0.3")] = None,
    config: Annotated[Path | None, typer.Option(help="YAML with any of these; flags override it.")] = None,
    output: Annotated[Path | None, typer.Option(help="JSON to write; -5shot is added if there are several.")] = None,
) -> None:
    """Evaluate a method by the few-shot protocol. Many processes: torchrun --nproc-per-node N -m repri evaluate …"""
    from repri.evaluation.evaluate import EvaluationConfig, plan
    from repri.evaluation.evaluate import evaluate as run
    from repri.evaluation.results import save_result
    from repri.models.weights.embedded import embedded_head, embedded_path
    from repri.runtime.distributed import world
    from repri.runtime.files import check_cache, check_writable
    from repri.runtime.memory import reuse_memory
    from repri.runtime.settings import parse, read_yaml

    flags = {
        "data": data,
        "root": root and str(root),
        "test_data": test_data,
        "test_root": test_root and str(test_root),
        "split": split,
        "shots": shots and _numbers(shots, "--shots"),
        "method": method,
        "protocol": protocol,
        "extractor": extractor,
        "weights": weights,
        "layers": layers and _layers(layers),
        "shifts": shifts,
        "size": size,
        "runs": runs,
        "tasks": tasks,
        "seed": seed,
        "sampling": sampling,
        "min_pixels": min_pixels,
        "task_list": task_list and str(task_list),
        "precision": precision,
    }
    values = _spelled_like_flags(read_yaml(config), config) if config else {}
    written = values.pop("output", None)
    output = Path(str(written)) if output is None and written is not None else output
    values |= {name: value for name, value in flags.items() if value is not None}
    if fold is not None:
        values["folds"] = None if fold == "all" else _numbers(fold, "--fold")
    if set:
        before = values.get("settings") or {}
        if not isinstance(before, dict):
            raise ValueError(f"{config}: settings must be names and values, got {before!r}")
        values["settings"] = before | settings_of(set)
    if task_list is not None and (given := [name for name in OF_A_LIST if flags[name] is not None]):
        raise ValueError(f"--{given[0]}: the task list {task_list} says that itself; leave it out")
    resolved = parse(EvaluationConfig, values, str(config or "repri evaluate"))
    several = len(resolved.shots) if resolved.task_list is None else 1
    for k in resolved.shots:
        if path := _path(output, k, several):
            check_writable(path)
    check_cache()
    reuse_memory()
    with world() as here:
        bars = Bars() if here.first else None
        extractors = _extractors(resolved) if resolved.extractor is not None else None
        if extractors and "{fold}" not in f"{resolved.extractor} {resolved.weights}":
            extractors(0)  # whichever fold: a wrong name shall not wait until masks are counted
        elif extractors is None:
            embedded_path()  # nor shall a damaged file
            embedded_head("default")
        with bars or nullcontext():
            planned = plan(resolved, counting(bars))
            results = run(planned, extractors or _extractors(planned.config), here, _report(bars) if bars else None)
        if here.first:
            for k, result in results.items():
                print_result(result)
                if path := _path(output, k, several):
                    save_result(result, path)
                    typer.echo(f"written: {path}")


OF_A_LIST = ("shots", "runs", "tasks", "seed", "sampling")
"""What a task list decides."""


def _numbers(text: str, name: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"{name} takes whole numbers with commas, got {text!r}") from None


def _layers(text: str) -> list[str | int]:
    return [int(part) if part.lstrip("-").isdigit() else part for part in text.split(",")]


def _spelled_like_flags(values: dict[str, Any], path: Path) -> dict[str, Any]:
    """A file may be written as the flags are: ``fold: all``, ``shots: 1,5``, ``layers: -1``, ``set: …``."""
    for flag, name in (("fold", "folds"), ("set", "settings")):
        if flag in values and name in values:
            raise ValueError(f"{path}: {flag} and {name} say the same: leave one out")
        if flag in values:
            values[name] = values.pop(flag)
    if values.get("folds") == "all":
        values["folds"] = None
    for name in ("shots", "folds", "layers"):
        if isinstance(values.get(name), (str, int)):
            text = str(values[name])
            values[name] = _layers(text) if name == "layers" else _numbers(text, f"{path}: {name}")
    return values


def _path(output: Path | None, shots: int, several: int) -> Path | None:
    if output is None or several == 1:
        return output
    return output.with_name(f"{output.stem}-{shots}shot{output.suffix or '.json'}")


def _extractors(config):
    """fold → extractor; the same one again where neither its name nor its weights depend on the fold."""
    from functools import cache

    from repri.models import load_extractor
    from repri.models.weights.embedded import DEFAULTS
    from repri.runtime.distributed import default_device

    options: dict[str, Any] = {"shifts": config.shifts}
    if config.extractor != "filters":
        options |= {"device": default_device()}
    packaged = ("default-fold{fold}", *DEFAULTS, "distilled", "filters")
    if config.extractor not in packaged and not config.extractor.endswith(".safetensors"):
        options |= {"combine": config.combine}
    if config.layers is not None:
        options |= {"layers": config.layers}

    @cache
    def load(name: str, weights: str | None):
        return load_extractor(name, weights, **options)

    def of_fold(fold: int):
        name, weights = (text and text.replace("{fold}", str(fold)) for text in (config.extractor, config.weights))
        return load(name, weights)

    return of_fold


def _report(bars: Bars):
    """Progress with the running mIoU."""
    from repri.evaluation.metrics import running_miou

    def show(what: str, done: int, total: int, counts) -> None:
        bars.show(what, done, total, "" if counts is None else f"mIoU {running_miou(counts):.1f}")

    return show


def print_result(result: dict[str, Any]) -> None:
    """A table of folds, the mean, and the classes."""
    from rich.console import Console
    from rich.table import Table

    console = Console()
    title = f"{result['method']}, {result['shots']}-shot, protocol {result['protocol']}"
    form = result["config"].get("form")
    title += "" if form in (None, result["protocol"]) else f", form {form}"
    table = Table(title=title, title_justify="left")
    for name in ("", "mIoU", "95 % interval", "std of runs", "FB-IoU", "|δ| of π"):
        table.add_column(name, justify="left" if not name else "right")
    rows = [(f"fold {fold}", values) for fold, values in result["per_fold"].items()]
    for name, values in [*rows, ("mean", result)]:
        low, high = values["interval"]
        error = values["proportion_error"]
        delta = f"{error['initial']:.2f} → {error['final']:.2f}" if error else "-"
        cells = (
            f"{values['miou']:.1f}",
            f"{low:.1f} … {high:.1f}",
            f"{values['std_runs']:.2f}",
            f"{values['fb_iou']:.1f}",
        )
        table.add_row(name, *cells, delta, end_section=name == rows[-1][0])
    console.print(table)
    per_class = sorted(result["per_class"].items(), key=lambda item: -item[1])
    console.print("classes: " + ", ".join(f"{name} {iou:.1f}" for name, iou in per_class), highlight=False)
    seen = [name for names in result.get("seen", {}).values() for name in names]
    if seen:
        console.print(f"[yellow]not new to the extractor[/], trained with their labels: {', '.join(seen)}")
    timing = result["timing"]
    speed = f"tasks {timing['tasks_s']:.0f} s, {timing['tasks_per_s']:.0f}/s, {timing['peak_memory_gb']:.1f} GB"
    console.print(f"features {timing['extraction_s']:.0f} s, {speed}", highlight=False)


def compare(
    results: Annotated[list[Path], typer.Argument(help="JSON files of `repri evaluate`; the first is the baseline.")],
    mixed: Annotated[bool, typer.Option(help="Allow different protocols or task lists.")] = False,
    plot: Annotated[Path | None, typer.Option(help="Also draw them as a picture.")] = None,
) -> None:
    """Compare results on the same tasks, with intervals of the differences."""
    from rich.console import Console
    from rich.table import Table

    from repri.evaluation.results import compare as run

    compared = run(results, mixed)
    table = Table()
    for name in ("result", "method", "protocol", "shots", "mIoU", "95 % interval", "against the first"):
        left = name in ("result", "method", "protocol")
        table.add_column(name, justify="left" if left else "right", overflow="fold")  # a name's end tells most
    for row in compared:
        found = row.result
        low, high = found["interval"]
        difference = "" if row is compared[0] else "not paired"
        if row.difference is not None:
            difference = "{:+.1f} ({:+.1f} … {:+.1f})".format(*row.difference)
        cells = (
            found["method"],
            found["protocol"],
            str(found["shots"]),
            f"{found['miou']:.1f}",
            f"{low:.1f} … {high:.1f}",
        )
        table.add_row(row.path.stem, *cells, difference)
    Console().print(table)
    if plot is not None:
        from repri.experiments.plots import plot_comparison

        typer.echo(f"written: {plot_comparison(compared, plot)}")
