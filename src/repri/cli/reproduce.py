"""``repri reproduce``."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from repri.experiments.settings import ReproduceSettings
from repri.runtime.errors import RepriError

from .common import Bars, running
from .flags import resolve, settings_command

if TYPE_CHECKING:
    from repri.experiments.lab import Lab
    from repri.experiments.reproduce import Work


@settings_command(ReproduceSettings)
def reproduce(
    config: Path | None,
    given: dict[str, Any],
    items: Annotated[list[str], typer.Argument(help="list, all, docs, or names of items, such as table5 or t_pi.")],
    dry_run: Annotated[bool, typer.Option(help="Say which cells are missing and how long they take.")] = False,
    check: Annotated[bool, typer.Option(help="With docs: only say whether the page is up to date.")] = False,
) -> None:
    """Make the paper's tables and figures again, beside the paper's numbers.

    Cells that were computed are kept: a run that was stopped goes on. Many processes: torchrun --nproc-per-node N -m
    repri reproduce …
    """
    settings = resolve(ReproduceSettings, config, given, "repri reproduce")
    settings.check()
    if items == ["list"]:
        return _list()
    if items == ["docs"]:
        return _docs(Path(settings.results), check)
    return _run(items, settings, dry_run)


def _list() -> None:
    from repri.experiments.items import ITEMS

    for item in ITEMS.values():
        typer.echo(f"{item.name:18}{item.alias:18}{item.title}")


def _docs(results: Path, check: bool) -> None:
    from repri.experiments.documents import PAGES, index_of, update_page

    texts = {Path(page): update_page(Path(page), results) for page in PAGES}
    texts[results / "README.md"] = index_of(results)
    for path, text in texts.items():
        same = path.is_file() and path.read_text(encoding="utf-8") == text
        if not same and check:
            raise RepriError(f"{path} is not what the result files give: run repri reproduce docs.")
        if not same:
            path.write_text(text, encoding="utf-8")
        typer.echo(f"{'up to date' if same else 'written'}: {path}")


def _run(items: list[str], settings: ReproduceSettings, dry_run: bool) -> None:
    from repri.experiments.items import find_items
    from repri.experiments.lab import Lab
    from repri.experiments.reproduce import produce, work_of
    from repri.experiments.store import CellStore
    from repri.runtime.distributed import world
    from repri.runtime.files import check_cache, check_writable
    from repri.runtime.memory import reuse_memory

    chosen = find_items(items)
    output, results = Path(settings.output).expanduser(), Path(settings.results).expanduser()
    check_writable(output / "x", make=True)
    check_cache()
    reuse_memory()
    stored = [results] if results.is_dir() else []
    with world() as here:
        bars = Bars() if here.first else None
        lab = Lab(settings, CellStore(output / "cells", stored), here, running(bars) if bars else None)
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
