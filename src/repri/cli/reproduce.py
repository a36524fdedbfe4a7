"""``repri reproduce``."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from repri.runtime.errors import RepriError

from .common import Bars, running

if TYPE_CHECKING:
    from repri.experiments.lab import Lab, Place
    from repri.experiments.reproduce import Work

Text = str | None


def reproduce(
    items: Annotated[list[str], typer.Argument(help="list, all, docs, or names of items, such as table5 or t_pi.")],
    budget: Annotated[
        str, typer.Option(help="full (5×1000 tasks), here (few tasks) or quick (generated data).")
    ] = "here",
    root: Annotated[Text, typer.Option(help="Folder of PASCAL VOC.")] = None,
    coco_root: Annotated[Text, typer.Option(help="Folder of COCO.")] = None,
    extractor: Annotated[Text, typer.Option(help="Extractor, as for repri evaluate; {fold} is replaced.")] = None,
    weights: Annotated[Text, typer.Option(help="Weights of the extractor.")] = None,
    layers: Annotated[Text, typer.Option(help="Layers of the extractor, such as layer3,layer4 or -2,-1.")] = None,
    size: Annotated[int | None, typer.Option(help="Long side of the images in pixels.")] = None,
    protocol: Annotated[str, typer.Option(help="Protocol: clean, official or paper.")] = "clean",
    heads: Annotated[Text, typer.Option(help="Heads of methods: runs/{method}-fold{fold}/method.safetensors.")] = None,
    fold: Annotated[Text, typer.Option(help="Folds, such as 0 or 0,2; default: those of the recipe.")] = None,
    runs: Annotated[int | None, typer.Option(help="Number of runs, instead of the budget's.", min=1)] = None,
    tasks: Annotated[int | None, typer.Option(help="Tasks in each run, instead of the budget's.", min=1)] = None,
    images: Annotated[
        int | None, typer.Option(help="Images of each class, for choices by base classes.", min=1)
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder of tables, figures and cells.")] = Path(
        "reproduced"
    ),
    results: Annotated[Path, typer.Option(help="Folder of stored results, which count as computed.")] = Path("results"),
    dry_run: Annotated[bool, typer.Option(help="Say which cells are missing and how long they take.")] = False,
    check: Annotated[bool, typer.Option(help="With docs: only say whether the page is up to date.")] = False,
) -> None:
    """Make the paper's tables and figures again, beside the paper's numbers.

    Cells that were computed are kept: a run that was stopped goes on. Many processes: torchrun --nproc-per-node N -m
    repri reproduce …
    """
    if items == ["list"]:
        return _list()
    if items == ["docs"]:
        return _docs(results, check)
    place = {"root": root, "coco_root": coco_root, "protocol": protocol, "heads": heads, "images": images}
    network = {"name": extractor, "weights": weights, "layers": layers, "size": size}
    _run(items, _place(budget, place, network, fold, {"runs": runs, "tasks": tasks}), output, results, dry_run)
    return None


def _list() -> None:
    from repri.experiments.items import ITEMS

    for item in ITEMS.values():
        typer.echo(f"{item.name:18}{item.alias:18}{item.title}")


def _docs(results: Path, check: bool) -> None:
    from repri.experiments.documents import index_of, update_page

    page, index = Path("docs/results.md"), results / "README.md"
    for path, text in ((page, update_page(page, results)), (index, index_of(results))):
        same = path.is_file() and path.read_text(encoding="utf-8") == text
        if not same and check:
            raise RepriError(f"{path} is not what the result files give: run repri reproduce docs.")
        if not same:
            path.write_text(text, encoding="utf-8")
        typer.echo(f"{'up to date' if same else 'written'}: {path}")


def _place(budget: str, values: dict[str, Any], network: dict[str, Any], fold: Text, drawn: dict[str, Any]) -> Place:
    """What the flags say is there."""
    from repri.experiments.lab import Place
    from repri.experiments.recipe import BUDGETS
    from repri.models.settings import ExtractorSettings
    from repri.protocols import get_protocol
    from repri.runtime.settings import nearest
    from repri.runtime.values import from_text

    if budget not in BUDGETS:
        raise RepriError(
            f"There is no budget named {budget!r}{nearest(budget, list(BUDGETS))} Known: {', '.join(BUDGETS)}."
        )
    get_protocol(values["protocol"])
    if network["layers"] is not None:
        network["layers"] = from_text(tuple[str | int, ...], network["layers"])
    folds = None if fold is None else from_text(tuple[int, ...], fold)
    chosen = replace(BUDGETS[budget], **{name: value for name, value in drawn.items() if value is not None})
    return Place(chosen, extractor=ExtractorSettings(**network), folds=folds, **values)


def _run(items: list[str], place: Place, output: Path, results: Path, dry_run: bool) -> None:
    from repri.experiments.items import find_items
    from repri.experiments.lab import Lab
    from repri.experiments.reproduce import produce, work_of
    from repri.experiments.store import CellStore
    from repri.runtime.distributed import world
    from repri.runtime.files import check_cache, check_writable
    from repri.runtime.memory import reuse_memory

    chosen = find_items(items)
    check_writable(output / "x", make=True)
    check_cache()
    reuse_memory()
    stored = [results] if results.is_dir() else []
    with world() as here:
        bars = Bars() if here.first else None
        lab = Lab(place, CellStore(output / "cells", stored), here, running(bars) if bars else None)
        with bars or nullcontext():
            works = [work_of(lab, item) for item in chosen]
        if dry_run:
            return _dry_run(lab, works)
        for work in works:
            if here.first:
                typer.echo(_sentence(work))
            if work.possible:
                with bars or nullcontext():
                    out = produce(lab, work, output)
                if here.first and out.files:
                    typer.echo("".join(f"  written: {path}\n" for path in out.files), nl=False)
    return None


def _sentence(work: Work) -> str:
    """How much of an item is there."""
    lines = [f"{work.item.name}: {work.item.title}. {len(work.cells)} cells, {len(work.missing)} to compute."]
    return "\n".join([*lines, *(f"  {sentence}" for sentence in work.left_out)])


def _dry_run(lab: Lab, works: list[Work]) -> None:
    from repri.experiments.estimate import estimate

    missing = list(dict.fromkeys(cell for work in works for cell in work.missing))
    for work in works:
        typer.echo(_sentence(work))
        for cell in work.missing:
            typer.echo(f"  missing: {cell.label}, {cell.runs}×{cell.tasks} tasks")
    if not missing:
        return typer.echo("Nothing is missing.")
    spent = estimate(lab, missing)
    for (method, shots), seconds in spent.per_task.items():
        typer.echo(f"measured: {method}, {shots}-shot: {seconds:.3f} s for a task")
    typer.echo(f"features of {spent.images} images: {_time(spent.extraction)}")
    return typer.echo(f"{len(missing)} cells: about {_time(spent.total)} with one process")


def _time(seconds: float) -> str:
    return (
        f"{seconds:.0f} s"
        if seconds < 120
        else f"{seconds / 60:.0f} min"
        if seconds < 7200
        else f"{seconds / 3600:.1f} h"
    )
