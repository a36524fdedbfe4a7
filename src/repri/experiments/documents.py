"""Pages of the documentation whose figures come from result files, and the index of these files.

A table of a page is written twice: as a template in a comment, in which ``{file}`` stands for a result, and below it as
what the files give::

    <!-- table
    | | 1 shot |
    |---|---|
    | RePRI | {one-road/embedded-1shot} |
    -->
    | | 1 shot |
    |---|---|
    | RePRI | 53.1 ± 0.5, δ 0.58 → 0.49 |
    <!-- end -->

``{file}`` gives mIoU, half of its interval, the runs and tasks if they are not 5×1000, and δ. Parts of it are
``{file:miou}``, ``{file:half}`` (without δ), ``{file:short}`` (without runs and tasks too), ``{file:delta}`` (with δ,
without runs and tasks), ``{file:folds}`` and ``{file:fold0}``. Boundary F is ``{file:border}`` and ``{file:border0}``,
and the median error of π is ``{file:final}``. ``{a+b:half}`` takes each fold from the last file that has it.
``{paper:table1/RePRI/1}`` is the paper's number, and ``{paper:table1/RePRI/1/0}`` that of fold 0.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from repri.evaluation.results import FORMAT, load_result
from repri.runtime.errors import RepriError
from repri.runtime.reading import read_json, read_text

from .published import published
from .report import mean_of_folds

__all__ = ["PAGES", "index_of", "shown", "update_page"]

PAGES = ("docs/results.md", "docs/regions.md")
"""Pages with tables of result files."""

TABLE = re.compile(r"<!-- table\n(?P<template>.*?)\n-->\n(?P<old>.*?)<!-- end -->", re.DOTALL)
PLACE = re.compile(r"\{(?P<name>paper|[^{}:\s]*/[^{}:\s]*)(?::(?P<part>[^{}]+))?\}")
STANDARD = (5, 1000)
"""Runs and tasks that need not be said."""


def update_page(page: Path, results: Path) -> str:
    """A page in which every table has the figures of the result files.

    Args:
        page: Markdown file.
        results: Folder of the result files.

    Returns:
        The text of the page.
    """

    def fill(match: re.Match[str]) -> str:
        template = match["template"]
        text = PLACE.sub(lambda place: shown(place["name"], place["part"], results), template)
        return f"<!-- table\n{template}\n-->\n{text}\n<!-- end -->"

    return TABLE.sub(fill, read_text(page))


def shown(name: str, part: str | None, results: Path) -> str:
    """The text of a placeholder.

    Args:
        name: Files under ``results`` without their suffix, joined by ``+``; or ``paper``.
        part: What of them is shown; None: everything.
        results: Folder of the result files.

    Returns:
        The text.

    Example:
        >>> shown("paper", "table1/RePRI/5", Path())
        '66.8'
    """
    if name == "paper":
        return _of_paper(part or "")
    files = [load_result(results / f"{file}.json") for file in name.split("+")]
    folds = {fold: values for file in files for fold, values in sorted(file["per_fold"].items())}
    if part is not None and (one := re.fullmatch(r"(fold|border)(\d+)", part)):
        value = folds.get(one[2], {}).get("miou" if one[1] == "fold" else "boundary_f")
        if value is None:
            raise RepriError(f"{name} has no {part}.")
        return f"{value:.1f}"
    if part == "border":
        return f"{sum(values['boundary_f'] for values in folds.values()) / len(folds):.1f}"
    if part == "final":
        return f"{files[0]['proportion_error']['final']:.2f}"
    if part == "folds":
        return ", ".join(f"{folds[fold]['miou']:.1f}" for fold in sorted(folds))
    mean, low, high = mean_of_folds([folds[fold] for fold in sorted(folds)])
    if part == "miou":
        return f"{mean:.1f}"
    text = f"{mean:.1f} ± {(high - low) / 2:.1f}"
    if part == "short":
        return text
    runs, tasks = _drawn(files[0])
    text += "" if (runs, tasks) == STANDARD else f" ({runs}×{tasks})"
    error = files[0].get("proportion_error")
    if part == "half" or not error or "oracle" in files[0]["method"]:
        return text
    if part == "delta":
        text = text.split(" (")[0]
    elif part is not None:
        raise RepriError(
            f"A placeholder has no part named {part!r}. Known: miou, half, short, delta, folds, fold0, border, "
            "border0, final."
        )
    return f"{text}, δ {error['initial']:.2f} → {error['final']:.2f}"


def _of_paper(place: str) -> str:
    table, method, shots, *fold = place.split("/")
    value = published(table).value(method, int(shots), int(fold[0]) if fold else None)
    if value is None:
        raise RepriError(f"The paper has no number {place}.")
    return f"{value:.1f}"


def _drawn(result: Mapping[str, Any]) -> tuple[int, int]:
    """Runs and tasks of a result, of this version or of a former one."""
    drawn, config = result["config"]["tasks"], result["config"]
    return (drawn["runs"], drawn["tasks"]) if isinstance(drawn, dict) else (config["runs"], drawn)


def index_of(results: Path) -> str:
    """The index of a folder of results: one table for each study, one line for each result.

    Args:
        results: The folder, with one folder for each study.

    Returns:
        Markdown text.
    """
    text = ["# Results", "", "Written by `repri reproduce docs`. mIoU in percent, mean of the folds.", ""]
    for study in sorted(path for path in results.iterdir() if path.is_dir()):
        rows = [row for path in sorted(study.rglob("*.json")) if (row := _index_row(path, study)) is not None]
        others = sum(path.suffix != ".json" and path.is_file() for path in study.rglob("*"))
        text += [f"## {study.name}", ""]
        if rows:
            text += ["| file | method | shots | protocol | extractor | folds | tasks | mIoU |", "|---|" + "---|" * 7]
            text += [*rows, ""]
        if others or not rows:
            rest = sum(path.suffix == ".json" for path in study.rglob("*")) - len(rows)
            text += [f"{others} files of settings and logs, {rest} other JSON files.", ""]
    return "\n".join(text)


def _index_row(path: Path, study: Path) -> str | None:
    content = read_json(path)
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        return None
    runs, tasks = _drawn(content)
    low, high = content["interval"]
    first = next(iter(content.get("extractor", {}).values()), {})
    cells = (
        f"`{path.relative_to(study).with_suffix('').as_posix()}`",
        content["method"],
        str(content["shots"]),
        content["protocol"],
        first.get("name", "") if isinstance(first, dict) else "",
        ", ".join(content["per_fold"]),
        f"{runs}×{tasks}",
        f"{content['miou']:.1f} ± {(high - low) / 2:.1f}",
    )
    return "| " + " | ".join(cells) + " |"
