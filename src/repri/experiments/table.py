"""A table as data, and how it is written: Markdown, CSV and LaTeX."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass, field
from pathlib import Path

from repri.runtime.files import atomic

__all__ = ["Number", "Table", "csv_of", "latex_of", "markdown_of", "write_table"]

LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"$<$",
    ">": r"$>$",
    "±": r"$\pm$",
    "−": r"$-$",
    "→": r"$\rightarrow$",
    "…": r"\ldots{}",
    "×": r"$\times$",
    "δ": r"$\delta$",
    "π": r"$\pi$",
    "τ": r"$\tau$",
    "λ": r"$\lambda$",
    "⁰": r"$^0$",
    "·": r"$\cdot$",
    "÷": r"$\div$",
    "≥": r"$\geq$",
    "≤": r"$\leq$",
}


@dataclass(frozen=True)
class Number:
    """A measured number with its 95 % interval, and the paper's."""

    ours: float | None
    low: float | None = None
    high: float | None = None
    paper: float | None = None
    digits: int = 1
    comparable: bool = True
    """Whether the paper's number is of the same folds, so that the difference means something."""

    @property
    def difference(self) -> tuple[float, float | None, float | None] | None:
        """Ours minus the paper's, and its interval: the paper gives none for its own number, which counts as exact.

        Example:
            >>> Number(52.0, 51.0, 53.5, paper=50.0).difference
            (2.0, 1.0, 3.5)
        """
        if self.ours is None or self.paper is None or not self.comparable:
            return None
        low, high = (None if edge is None else edge - self.paper for edge in (self.low, self.high))
        return self.ours - self.paper, low, high

    @property
    def half(self) -> float | None:
        """Half of the interval."""
        return None if self.low is None or self.high is None else (self.high - self.low) / 2

    def text(self, part: str) -> str:
        """The ``paper``, ``ours`` or ``difference`` as text."""
        if part == "paper":
            return "" if self.paper is None else f"{self.paper:.{self.digits}f}"
        spread = "" if self.half is None else f" ± {self.half:.{self.digits}f}"
        if part == "ours":
            return "" if self.ours is None else f"{self.ours:.{self.digits}f}{spread}".replace("-", "−")
        if self.difference is None:
            return ""
        return f"{self.difference[0]:+.{self.digits}f}{spread}".replace("-", "−")


@dataclass(frozen=True)
class Table:
    """Rows of numbers under named columns."""

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Number | str, ...]], ...]
    """Label and values of each row; a text stands for what is no number."""
    notes: tuple[str, ...] = ()
    facts: dict[str, str] = field(default_factory=dict)
    """Protocol, extractor, budget, tasks: what each output names."""


def _lines(table: Table) -> list[tuple[str, str, list[str]]]:
    """Label, kind and texts of each printed line: paper, ours and difference where the paper has the row."""
    lines = []
    for label, values in table.rows:
        numbers = [value for value in values if isinstance(value, Number)]
        compared = any(number.paper is not None for number in numbers)
        measured = any(number.ours is not None for number in numbers)
        parts = ("paper", *(("ours", "difference") if measured else ())) if compared else ("ours",)
        for part in parts:
            texts = [x.text(part) if isinstance(x, Number) else (x if part == parts[0] else "") for x in values]
            lines.append((label if part == parts[0] else "", part, texts))
    return lines


def markdown_of(table: Table) -> str:
    """The table as Markdown, with what decided it and its notes.

    Example:
        >>> rows = (("RePRI", (Number(53.1, 52.6, 53.6, paper=59.1),)),)
        >>> print(markdown_of(Table("a", "A table", ("mean",), rows, facts={"protocol": "clean"})))
        # A table
        <BLANKLINE>
        protocol: clean
        <BLANKLINE>
        | | | mean |
        |---|---|---|
        | RePRI | paper | 59.1 |
        | | ours | 53.1 ± 0.5 |
        | | difference | −6.0 ± 0.5 |
        <BLANKLINE>
    """
    text = [f"# {table.title}", ""]
    if table.facts:
        text += ["; ".join(f"{name}: {value}" for name, value in table.facts.items()), ""]
    text += ["| | | " + " | ".join(table.columns) + " |", "|---|---|" + "---|" * len(table.columns)]
    for label, part, texts in _lines(table):
        text.append(_row([label.replace("|", "\\|"), part, *texts]))
    text += ["", *(f"- {note}" for note in table.notes), *([""] if table.notes else [])]
    return "\n".join(text)


def _row(cells: list[str]) -> str:
    return "|" + "|".join(f" {cell} " if cell else " " for cell in cells) + "|"


def csv_of(table: Table) -> str:
    """One line for each number: row, column, paper, ours, interval, difference and its interval; then the facts."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    names = ("paper", "ours", "low", "high", "difference", "difference_low", "difference_high")
    writer.writerow(["row", "column", *names, *table.facts])
    for label, values in table.rows:
        for column, value in zip(table.columns, values, strict=True):
            if isinstance(value, Number):
                numbers = [value.paper, value.ours, value.low, value.high, *(value.difference or (None,) * 3)]
                texts = ["" if number is None else f"{number:.6g}" for number in numbers]
            else:
                texts = ["", value, "", "", "", "", ""]
            writer.writerow([label, column, *texts, *table.facts.values()])
    return out.getvalue()


def latex_of(table: Table) -> str:
    """The table as LaTeX; it needs the package booktabs."""
    lines, caption = [], f"{table.title}."
    if table.facts:
        caption += " " + "; ".join(f"{name}: {value}" for name, value in table.facts.items()) + "."
    for label, part, texts in _lines(table):
        if label and lines:
            lines.append(r"\addlinespace")
        lines.append(" & ".join(map(_escaped, (label, part, *texts))) + r" \\")
    return "\n".join(
        [
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{_escaped(caption)}}}",
            rf"\label{{tab:{table.name}}}",
            rf"\begin{{tabular}}{{ll{'r' * len(table.columns)}}}",
            r"\toprule",
            " & ".join(["", "", *map(_escaped, table.columns)]) + r" \\",
            r"\midrule",
            *lines,
            r"\bottomrule",
            r"\end{tabular}",
            *(rf"\par\smallskip\footnotesize {_escaped(note)}" for note in table.notes),
            r"\end{table}",
            "",
        ]
    )


def _escaped(text: str) -> str:
    """Text in which characters that LaTeX reads as commands are written out."""
    return "".join(LATEX.get(letter, letter) for letter in text)


def write_table(table: Table, folder: Path) -> list[Path]:
    """Write a table as NAME.md, NAME.csv and NAME.tex.

    Args:
        table: The table.
        folder: Folder of the files.

    Returns:
        The files.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for suffix, text in ((".md", markdown_of(table)), (".csv", csv_of(table)), (".tex", latex_of(table))):
        path = folder / f"{table.name}{suffix}"
        with atomic(path) as temporary:
            temporary.write_text(text, encoding="utf-8")
        written.append(path)
    return written
