"""``repri try``: how well would it work on these images?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from repri.segmenter.trial.settings import TrialSettings

from .common import Bars
from .flags import resolve, settings_command

if TYPE_CHECKING:
    from collections.abc import Sequence

    from repri.segmenter.trial.draws import Plan, TrialFolder
    from repri.segmenter.trial.run import Figure, FolderResult, Outcome


@settings_command(TrialSettings)
def try_folder(
    config: Path | None,
    given: dict[str, Any],
    folders: Annotated[
        list[Path],
        typer.Argument(metavar="FOLDER", help="Annotated images in any format that `repri segment --support` takes."),
    ],
) -> None:
    """Tell how well a few annotated images would segment the others.

    For each folder, method and number of shots, a support is drawn among the annotated images several times, and other
    annotated images are segmented and scored."""
    settings = resolve(TrialSettings, config, given, "repri try")
    settings.check()
    from repri.segmenter.trial.draws import plan_draws, read_folder
    from repri.segmenter.trial.report import check_output, labels, write_report
    from repri.segmenter.trial.run import advice

    output = None if settings.output is None else Path(settings.output).expanduser()
    if output is not None:
        check_output(output)
    read = [read_folder(path, settings) for path in dict.fromkeys(folders)]
    plans = [plan_draws(folder, settings) for folder in read]
    for folder, plan in zip(read, plans, strict=True):
        for note in (*folder.notes, *_left_out(folder, plan)):
            typer.echo(note, err=True)
    results = _run(settings, list(zip(labels(read), read, plans, strict=True)))
    for result in results:
        _print_folder(result)
    if len(results) > 1:
        _print_mean(results)
    _say(advice({result.label: result.outcomes for result in results}))
    if output is not None:
        for problem in write_report(results, settings, output):
            typer.echo(problem, err=True)
        typer.echo(f"the figures and images: {output / 'index.html'}")


def _left_out(folder: TrialFolder, plan: Plan) -> list[str]:
    from repri.segmenter.trial.draws import shots_text

    return [
        f"{folder.path}: {shots_text(shots)} {'is' if shots == 1 else 'are'} left out, because {reason}."
        for shots, reason in plan.left_out.items()
    ]


def _run(settings: TrialSettings, planned: list[tuple[str, TrialFolder, Plan]]) -> list[FolderResult]:
    """Every draw of every method. The first method keeps its masks of most shots, if they are drawn on a sheet."""
    from repri.segmenter.trial.run import TOLD, FolderResult, Outcome, run_draw, segmenters

    tried = {method: segmenters(method, settings.extractor) for method in settings.methods}
    total = len(tried) * sum(len(draws) for _, _, plan in planned for draws in plan.draws.values())
    results, done = [], 0
    with Bars() as bars:
        for label, folder, plan in planned:
            outcomes = []
            for method, segmenter in tried.items():
                for shots, draws in plan.draws.items():
                    keep = settings.output is not None and method == settings.methods[0] and shots == max(plan.draws)
                    scored = []
                    for draw in draws:
                        bars.show("try", done, total, f"{label}, {method}, shots: {shots}")
                        scored.append(run_draw(segmenter, folder, draw, settings, keep, method == TOLD))
                        done += 1
                    outcomes.append(Outcome(method, shots, folder.classes, tuple(scored)))
            results.append(FolderResult(label, folder, plan, tuple(outcomes)))
        bars.show("try", done, total)
    return results


def _say(text: str) -> None:
    """Print a sentence, whose lines end between words if there is a terminal."""
    from rich.console import Console

    console = Console(highlight=False)
    console.print(text, markup=False, soft_wrap=not console.is_terminal)


def _table(title: str, columns: Sequence[str], rows: Sequence[tuple[str, ...]]) -> None:
    """A table whose first column is on the left and whose other columns hold numbers."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(title=escape(title), title_justify="left")
    for place, name in enumerate(columns):
        table.add_column(name, justify="left" if place == 0 else "right", overflow="fold", no_wrap=place > 0)
    for row in rows:
        table.add_row(*map(escape, row))
    Console(highlight=False).print(table)


def _print_folder(result: FolderResult) -> None:
    from repri.segmenter.trial.draws import shots_text
    from repri.segmenter.trial.report import choices, percent, spread

    rows = []
    for outcome in result.outcomes:
        times = (spread(outcome), f"{outcome.fit_s:.2f}", f"{outcome.query_s:.2f}")
        rows.append((outcome.method, str(outcome.shots), *percent(outcome.figure), *times))
        if len(outcome.classes) > 1:
            rows += [(f"  {name}", "", *percent(f), "", "", "") for name, f in outcome.class_figures.items()]
    drawn = {(len(o.draws), max(len(scored.hits) for scored in o.draws)) for o in result.outcomes}
    draws, queries = max(drawn)
    title = f"{result.label}: {len(result.folder.items)} annotated images, draws: {draws}, queries in each: {queries}"
    columns = ("method", "shots", "IoU %", "95 % interval", "std", "fit s", "query s")
    _table(title, columns, rows)
    for line in _curves(result.outcomes):
        typer.echo(line)
    for outcome in result.outcomes:
        for text in choices(outcome):
            _say(f"{outcome.method}, {shots_text(outcome.shots)}: {text}")
    typer.echo()


def _curves(outcomes: Sequence[Outcome], width: int = 40) -> list[str]:
    """The learning curve of each method as bars, if there is more than one number of shots."""
    if len({outcome.shots for outcome in outcomes}) < 2:
        return []
    lines, last = [], ""
    for outcome in outcomes:
        name = "" if outcome.method == last else outcome.method
        last = outcome.method
        iou = 0.0 if outcome.iou != outcome.iou else outcome.iou
        lines.append(f"  {name:10} {outcome.shots:>4} {'█' * round(width * iou)}{'·' * (width - round(width * iou))}")
    return ["learning curve: shots, and the IoU from 0 to 100 %", *lines]


def _print_mean(results: Sequence[FolderResult]) -> None:
    """The mean over the folders for each method and number of shots."""
    from repri.segmenter.trial.report import percent
    from repri.segmenter.trial.run import mean_figure

    rows = []
    for method, shots in sorted(
        {(o.method, o.shots) for result in results for o in result.outcomes},
        key=lambda pair: ([o.method for o in results[0].outcomes].index(pair[0]), pair[1]),
    ):
        same = [o for result in results for o in result.outcomes if (o.method, o.shots) == (method, shots)]
        figure: Figure = mean_figure(same)
        rows.append((method, str(shots), *percent(figure), str(len(same))))
    _table("mean over the folders", ("method", "shots", "IoU %", "95 % interval", "folders"), rows)
