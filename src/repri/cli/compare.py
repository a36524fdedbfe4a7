"""``repri compare``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def compare(
    results: Annotated[list[Path], typer.Argument(help="JSON files of `repri evaluate`; the first is the baseline.")],
    mixed: Annotated[bool, typer.Option(help="Allow different protocols or task lists.")] = False,
    plot: Annotated[Path | None, typer.Option(help="Also draw the results as an image.")] = None,
) -> None:
    """Compare results on the same tasks, with intervals of the differences."""
    from repri.evaluation.results import compare as run

    from .tables import print_comparison

    compared = run(results, mixed)
    print_comparison(compared)
    if plot is not None:
        from repri.experiments.plots import plot_comparison

        typer.echo(f"written: {plot_comparison(compared, plot)}")
