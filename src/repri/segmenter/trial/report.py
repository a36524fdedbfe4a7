"""The files of a trial: ``trial.json``, the learning curve, sheets of the best and worst queries, and a page."""

from __future__ import annotations

import html
import json
import math
import platform
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
from PIL import Image

from repri.runtime.errors import RepriError
from repri.runtime.files import atomic, check_writable
from repri.runtime.reading import read_json
from repri.runtime.settings import as_mapping

from .draws import TrialFolder, shots_text
from .images import best_and_worst, draw_curve
from .run import Figure, FolderResult, Outcome, advice
from .settings import TrialSettings

__all__ = ["check_output", "choices", "labels", "percent", "spread", "trial_data", "write_report"]

FORMAT = "repri-trial-1"
"""First entry of a ``trial.json``."""


def labels(folders: Sequence[TrialFolder]) -> list[str]:
    """Names of folders, each once: the whole path where two folders have one name."""
    times = Counter(folder.name for folder in folders)
    return [folder.name if times[folder.name] == 1 else str(folder.path) for folder in folders]


def percent(figure: Figure) -> tuple[str, str]:
    """The IoU and its interval in percent, as text; a dash where there is none.

    Example:
        >>> percent(Figure(0.5, (0.4, 0.625))), percent(Figure(0.5, (math.nan, math.nan)))
        (('50.0', '40.0 … 62.5'), ('50.0', '-'))
    """
    low, high = figure.interval
    iou = "-" if math.isnan(figure.iou) else f"{100 * figure.iou:.1f}"
    return iou, "-" if math.isnan(low) else f"{100 * low:.1f} … {100 * high:.1f}"


def spread(outcome: Outcome) -> str:
    """The standard deviation over draws in percent, as text; a dash if there is one draw only."""
    return "-" if math.isnan(outcome.std) else f"{100 * outcome.std:.1f}"


def choices(outcome: Outcome) -> list[str]:
    """The choices that a segmenter made by itself, with the number of draws if they differ."""
    made = Counter(scored.choice for scored in outcome.draws if scored.choice is not None)
    total = len(outcome.draws)
    return [text if times == total else f"{text} ({times} of {total} draws)" for text, times in made.most_common()]


def check_output(folder: Path) -> None:
    """Raise a RepriError if the output folder holds files that no trial wrote, or cannot be written.

    Args:
        folder: The folder, which may be missing.
    """
    if folder.is_dir() and any(folder.iterdir()):
        try:
            written = read_json(folder / "trial.json")
        except RepriError:
            written = None
        if not isinstance(written, dict) or written.get("format") != FORMAT:
            raise RepriError(f"{folder} is not empty and holds no trial: choose another folder with --output.")
    check_writable(folder / "trial.json")


def trial_data(results: Sequence[FolderResult], settings: TrialSettings) -> dict[str, Any]:
    """The content of ``trial.json``.

    Args:
        results: The folders and their outcomes.
        settings: The settings of the trial.

    Returns:
        Plain values: the settings, the versions, and the counts and times of every draw.
    """
    import torch

    from repri import __version__

    return {
        "format": FORMAT,
        "settings": as_mapping(settings),
        "versions": {
            "repri": __version__,
            "python": platform.python_version(),
            "torch": str(torch.__version__),
            "numpy": np.__version__,
        },
        "advice": advice({result.label: result.outcomes for result in results}),
        "folders": [
            {
                "name": result.label,
                "path": str(result.folder.path),
                "classes": list(result.folder.classes),
                "images": len(result.folder.items),
                "left_out": {str(shots): reason for shots, reason in result.plan.left_out.items()},
                "notes": list(result.folder.notes),
                "outcomes": [_outcome_data(outcome, result.folder) for outcome in result.outcomes],
            }
            for result in results
        ],
    }


def _outcome_data(outcome: Outcome, folder: TrialFolder) -> dict[str, Any]:
    return {
        "method": outcome.method,
        "shots": outcome.shots,
        **_figure_data(outcome.figure),
        "std_draws": _number(outcome.std),
        "per_class": {name: _figure_data(figure) for name, figure in outcome.class_figures.items()},
        "fit_s": outcome.fit_s,
        "query_s": outcome.query_s,
        "draws": [
            {
                "seed": scored.draw.seed,
                "iou": _number(float(iou)),
                "support": folder.names(scored.draw.support),
                "queries": folder.names(scored.draw.queries),
                "intersections": scored.hits.tolist(),
                "unions": scored.unions.tolist(),
                "fit_s": scored.fit_s,
                "query_s": scored.query_s,
                "choice": scored.choice,
            }
            for scored, iou in zip(outcome.draws, outcome.per_draw, strict=True)
        ],
    }


def _figure_data(figure: Figure) -> dict[str, Any]:
    return {"iou": _number(figure.iou), "interval": [_number(value) for value in figure.interval]}


def _number(value: float) -> float | None:
    """JSON has no NaN."""
    return None if math.isnan(value) else value


def write_report(results: Sequence[FolderResult], settings: TrialSettings, folder: Path) -> list[str]:
    """Write all files of a trial.

    Args:
        results: The folders and their outcomes. The first method with most shots has kept its masks.
        settings: The settings of the trial.
        folder: The output folder, which :func:`check_output` has checked.

    Returns:
        One sentence for each file that could not be made.
    """
    data = trial_data(results, settings)
    with atomic(folder / "trial.json") as temporary:
        temporary.write_text(json.dumps(data, indent=1, ensure_ascii=False), encoding="utf-8")
    problems = []
    try:
        draw_curve(results, folder / "curve.png")
    except ImportError:
        problems.append("There is no curve.png, because matplotlib is not installed: pip install 'repri[plot]'.")
    sheets: dict[str, dict[str, str]] = {}
    for place, result in enumerate(results, 1):
        end = "" if len(results) == 1 else f"-{place}-{_plain(result.folder.name)}"
        sheets[result.label] = {}
        for kind, image in best_and_worst(result).items():
            sheets[result.label][kind] = f"{kind}{end}.jpg"
            with atomic(folder / f"{kind}{end}.jpg") as temporary:
                Image.fromarray(image).save(temporary, quality=90)
    page = _page(results, data["advice"], sheets, curve=not problems)
    with atomic(folder / "index.html") as temporary:
        temporary.write_text(page, encoding="utf-8")
    return problems


def _plain(name: str) -> str:
    """A name as part of a file name."""
    return "".join(character if character.isalnum() or character in "-_" else "_" for character in name)


def _page(results: Sequence[FolderResult], sentence: str, sheets: dict[str, dict[str, str]], curve: bool) -> str:
    """The page that shows everything."""
    parts = ["<h2>Learning curve</h2>\n" + _image("curve.png", "IoU by number of shots")] if curve else []
    for result in results:
        name = html.escape(result.label)
        counts = f"{len(result.folder.items)} annotated images; {', '.join(result.folder.classes)}"
        parts.append(f"<h2>{name}</h2>\n<p>{html.escape(counts)}</p>\n{_table(result.outcomes)}")
        left = [f"{shots_text(s)} were left out: {reason}." for s, reason in result.plan.left_out.items()]
        chose = [f"{o.method}, {shots_text(o.shots)}: {text}" for o in result.outcomes for text in choices(o)]
        parts += [f"<p>{html.escape(text)}</p>" for text in (*result.folder.notes, *left, *chose)]
        for kind, file in sheets[result.label].items():
            parts.append(f"<h3>{kind.capitalize()} queries</h3>\n{_image(file, f'{kind} queries of {result.label}')}")
    return PAGE.format(advice=html.escape(sentence), parts="\n".join(parts))


def _image(file: str, about: str) -> str:
    return f'<img src="{quote(file)}" alt="{html.escape(about, quote=True)}">'


def _table(outcomes: Sequence[Outcome]) -> str:
    rows = []
    for outcome in outcomes:
        times = (spread(outcome), f"{outcome.fit_s:.2f}", f"{outcome.query_s:.2f}")
        rows.append((outcome.method, str(outcome.shots), *percent(outcome.figure), *times))
        if len(outcome.classes) > 1:
            rows += [(f"– {name}", "", *percent(f), "", "", "") for name, f in outcome.class_figures.items()]
    head = ("method", "shots", "IoU in %", "95 % interval", "std of draws", "fit in s", "query in s")
    cells = [
        [f"<th>{cell}</th>" for cell in head],
        *([f"<td>{html.escape(cell)}</td>" for cell in row] for row in rows),
    ]
    return "<table>\n" + "\n".join(f"<tr>{''.join(line)}</tr>" for line in cells) + "\n</table>"


PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>repri: a trial</title>
<style>
body {{ font: 14px/1.4 system-ui, sans-serif; margin: 2rem; color: #222; background: #fafafa }}
table {{ border-collapse: collapse; background: #fff }}
th, td {{ border: 1px solid #ddd; padding: .2rem .6rem; text-align: right }}
th:first-child, td:first-child {{ text-align: left }}
img {{ max-width: 100%; border: 1px solid #ddd }}
</style></head>
<body><h1>How well would it work?</h1><p><b>{advice}</b></p>
{parts}
</body></html>
"""
