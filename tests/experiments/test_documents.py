"""The documentation's tables are what the result files give."""

from pathlib import Path

import pytest

from repri.experiments.documents import PAGES, index_of, shown, update_page
from repri.runtime.errors import RepriError

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"


@pytest.mark.parametrize("name", PAGES)
def test_pages_are_up_to_date(name):
    page = ROOT / name
    assert update_page(page, RESULTS) == page.read_text(), "run: repri reproduce docs"


def test_the_index_is_up_to_date():
    assert index_of(RESULTS) == (RESULTS / "README.md").read_text(), "run: repri reproduce docs"


def test_parts_of_a_result():
    name = "embedded/embedded-5shot"
    assert shown(name, None, RESULTS) == "56.2 ± 0.6 (3×1000), δ 0.46 → 0.40"
    assert shown(name, "half", RESULTS) == "56.2 ± 0.6 (3×1000)"
    assert shown(name, "delta", RESULTS) == "56.2 ± 0.6, δ 0.46 → 0.40"
    assert shown("one-road/embedded-1shot", "folds", RESULTS) == "53.5, 62.1, 64.2, 52.1"
    assert shown("+".join(f"one-road/joint-fold{f}-1shot" for f in range(4)), "short", RESULTS) == "62.1 ± 0.5"
    assert shown("paper", "table1/RePRI/1/3", RESULTS) == "47.5"
    assert [shown("regions/guided-10shot", part, RESULTS) for part in ("border", "border0", "final")] == [
        "42.4",
        "48.2",
        "0.30",
    ]
    for part, message in (
        ("nothing", "no part named 'nothing'"),
        ("fold7", "has no fold7"),
        ("border0", "has no border0"),
    ):
        with pytest.raises(RepriError, match=message):
            shown(name, part, RESULTS)


def test_a_template_is_filled(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("a {fold}\n<!-- table\n| x | {paper:table1/RePRI/5} |\n-->\nold\n<!-- end -->\nb\n")
    text = update_page(page, RESULTS)
    assert text == "a {fold}\n<!-- table\n| x | {paper:table1/RePRI/5} |\n-->\n| x | 66.8 |\n<!-- end -->\nb\n"
