"""``repri demo``."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from repri.runtime.errors import MissingExtraError, RepriError
from repri.runtime.files import check_writable


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="The PNG file to write.")] = Path("demo/repri.png"),
) -> None:
    """Run RePRI on a few photographs and generated scenes, and draw what each term of the loss does."""
    if output.suffix.lower() != ".png":
        raise RepriError(f"--output must be a file name that ends in .png, got {str(output)!r}.")
    check_writable(output)
    if find_spec("matplotlib") is None:
        raise MissingExtraError("The demo draws with matplotlib: pip install 'repri[plot]'.")
    from repri.experiments import demo as experiment
    from repri.models import load_extractor

    extractor = load_extractor(experiment.EXTRACTOR)
    photographs = experiment.run(experiment.photographs(), extractor)
    generated = experiment.run(experiment.scenes(), extractor)
    experiment.draw(photographs + [generated[i] for i in experiment.SHOWN], output)
    for what, results in ((f"{len(photographs)} pairs of photographs", photographs), ("generated scenes", generated)):
        typer.echo(f"one annotated image, one query: {what}, mean IoU of the object")
        for name, value in experiment.mean_iou(results).items():
            typer.echo(f"  {name:12} {100 * value:5.1f}")
    typer.echo(f"the figure: {output.resolve()}")
