"""``repri demo``."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from repri.files import check_writable


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="The picture to write (PNG).")] = Path(
        "demo/repri.png"
    ),
) -> None:
    """Run RePRI on generated scenes and draw what each term of the loss does."""
    if output.suffix.lower() != ".png":
        raise ValueError(f"--output must be a file name ending in .png, got {str(output)!r}")
    check_writable(output)
    if find_spec("matplotlib") is None:
        raise ValueError("the demo draws with matplotlib: pip install 'repri[plot]'")
    from repri.experiments import demo as experiment

    results = experiment.run()
    experiment.draw([results[i] for i in experiment.SHOWN], output)
    typer.echo(f"1-shot RePRI on {len(results)} generated tasks, mean IoU of the foreground:")
    for name, value in experiment.mean_iou(results).items():
        typer.echo(f"  {name:12} {100 * value:5.1f}")
    typer.echo(f"{len(experiment.SHOWN)} of the tasks, step by step: {output.resolve()}")
