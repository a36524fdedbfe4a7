"""Tables as Markdown, CSV and LaTeX."""

import csv
import io
import re

import pytest

from repri.experiments.table import Number, Table, csv_of, latex_of, markdown_of, write_table

TABLE = Table(
    "t",
    "50 % & more_things",
    ("fold 0", "mean"),
    (
        (
            "RePRI, π {x}",
            (Number(52.04, 51.0, 53.0, paper=50.0), Number(40.0, 39.0, 41.0, paper=60.0, comparable=False)),
        ),
        ("only in the paper", (Number(None, paper=33.3), Number(None))),
        ("only ours", (Number(10.0, 9.5, 10.5), "a text")),
    ),
    ("A note: δ → 0.",),
    {"protocol": "clean"},
)


def test_difference_and_its_interval():
    number = Number(52.0, 51.0, 53.5, paper=50.0)
    assert number.difference == (2.0, 1.0, 3.5)
    assert number.text("difference") == "+2.0 ± 1.2"
    assert Number(1.0, paper=2.0).text("difference") == "−1.0"
    assert Number(1.0, paper=2.0, comparable=False).difference is None
    assert Number(-0.5, digits=2).text("ours") == "−0.50"


def test_markdown_has_paper_ours_and_difference():
    text = markdown_of(TABLE)
    assert (
        "| RePRI, π {x} | paper | 50.0 | 60.0 |\n| | ours | 52.0 ± 1.0 | 40.0 ± 1.0 |\n| | difference | +2.0 ± 1.0 | |"
        in text
    )
    assert "| only in the paper | paper | 33.3 | |\n| only ours | ours | 10.0 ± 0.5 | a text |" in text
    assert "protocol: clean" in text
    assert text.rstrip().endswith("- A note: δ → 0.")


def test_csv_has_a_line_for_each_number():
    rows = list(csv.DictReader(io.StringIO(csv_of(TABLE))))
    assert len(rows) == 6
    assert (rows[0]["difference_low"], rows[0]["protocol"]) == ("1", "clean")
    assert rows[1]["difference"] == ""
    assert rows[5]["ours"] == "a text"


def balanced(text):
    """Whether braces, dollars and environments of LaTeX match."""
    plain = re.sub(r"\\[\\{}$&%#_]", "", text)
    depth = 0
    for letter in plain:
        depth += (letter == "{") - (letter == "}")
        assert depth >= 0
    opened = []
    for kind, name in re.findall(r"\\(begin|end)\{(\w+)\}", text):
        if kind == "begin":
            opened.append(name)
        else:
            assert opened.pop() == name
    return depth == 0 and not opened and plain.count("$") % 2 == 0 and text.isascii()


def test_latex_is_balanced_and_escaped():
    text = latex_of(TABLE)
    assert balanced(text)
    assert r"50 \% \& more\_things" in text
    rows = [line for line in text.splitlines() if line.endswith(r"\\")]
    assert all(len(re.findall(r"(?<!\\)&", row)) == 3 for row in rows)
    for command in (r"\toprule", r"\midrule", r"\bottomrule"):
        assert text.count(command) == 1


def test_files(tmp_path):
    assert [path.name for path in write_table(TABLE, tmp_path / "new")] == ["t.md", "t.csv", "t.tex"]


@pytest.mark.parametrize("name", ["table1", "table5", "figure3a"])
def test_latex_of_items_is_balanced(quick, name):
    assert balanced((quick.folder / f"{name}.tex").read_text())
