"""``repri demo``."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from repri.runtime.errors import MissingExtraError, RepriError
from repri.runtime.files import check_writable

if TYPE_CHECKING:
    from repri.experiments.demo import DemoRow

MEASURED = """\
One image is annotated, another one is segmented. IoU in percent of the mask
with a mask that was drawn by hand:
"""
COLUMNS = """\
prototype  nearest mean feature, without a fit
CE         the classifiers are fitted to the annotated image
CE+H       … and to the query, by its entropy
RePRI      … and to the expected proportion of the object: Segmenter() as it is
"""
NEXT = """\
What to do next:

  repri serve
      annotate your own images in the browser, and segment others

  repri segment --support {folder}/citrus/annotated \\
      --query {folder}/citrus/queries/images --output {results}
      masks of a folder of images; put your own images in place of these

  repri try annotated/
      how well would it work on my images? It needs a few annotated ones
"""


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="The PNG file to write.")] = Path("demo/repri.png"),
) -> None:
    """Segment photographs by one annotated image each, and draw what each term of the loss does.

    The photographs come with the package. They are also written beside the figure, into the folder examples.
    """
    if output.suffix.lower() != ".png":
        raise RepriError(f"--output must be a file name that ends in .png, got {str(output)!r}.")
    check_writable(output)
    if find_spec("matplotlib") is None:
        raise MissingExtraError("The demo draws with matplotlib: pip install 'repri[plot]'.")
    from repri.data.datasets.examples import copy_examples
    from repri.experiments import demo as experiment

    typer.echo(MEASURED)
    typer.echo(_line("annotated", "query", ("prototype", "CE", "CE+H", "RePRI")))
    rows = []
    for row in experiment.run():
        rows.append(row)
        figures = [f"{100 * value:.0f}" for value in row.iou.values()]
        typer.echo(_line(f"{row.example.name}: {row.support.name}", row.query.name, figures))
    typer.echo(_line("mean", "", [f"{100 * value:.0f}" for value in experiment.mean_iou(rows).values()]))
    typer.echo(f"\n{COLUMNS}\n{_verdict(rows)}\n")
    folder = output.parent / "examples"
    copy_examples(folder)
    experiment.draw(rows, output)
    typer.echo(f"The figure: {output}\nThe images: {folder}\n")
    typer.echo(NEXT.format(folder=folder, results=output.parent / "citrus"), nl=False)


def _line(annotated: str, query: str, figures: list[str] | tuple[str, ...]) -> str:
    """A line of the table, of at most 80 characters."""
    return f"{annotated:25}{query:17}" + "".join(f"{figure:>9}" for figure in figures)


def _verdict(rows: list[DemoRow]) -> str:
    """Where RePRI is better than prototypes, where it is not, and where there was a second expert."""
    gains = [round(100 * row.iou["RePRI"]) - round(100 * row.iou["prototype"]) for row in rows]
    better, worse = sum(gain > 0 for gain in gains), [-gain for gain in gains if gain < 0]
    text = f"RePRI is better than prototypes on {better} of {len(rows)} queries"
    text += f" and worse on {len(worse)} (by up to {max(worse)})." if worse else " and worse on none."
    both = dict.fromkeys(row.example.name for row in rows if row.textures)
    if both:
        text += f"\nFrom CE on, an expert on textures takes part for {', '.join(both)}:"
        text += "\ntheir annotated images have chosen it."
    return text
