"""``repri demo``; the figures themselves are tested in tests/experiments."""

import numpy as np
import pytest

from repri.data import EXAMPLES
from repri.experiments import demo as experiment
from repri.experiments.demo import COLUMNS, DemoRow


def made(name, *scores, textures=0.0):
    """A row with given IoU, without any network."""
    example = EXAMPLES[name]
    support, query = example.support()[0], example.queries()[0]
    maps = {column: np.full(query.mask.shape, 0.7, np.float32) for column in COLUMNS}
    return DemoRow(example, support, query, maps, dict(zip(COLUMNS, scores, strict=True)), textures)


@pytest.fixture
def done(repri, monkeypatch, tmp_path):
    rows = [made("coin", 0.5, 0.6, 0.7, 0.8, textures=0.7), made("people", 0.92, 0.9, 0.9, 0.9)]
    monkeypatch.setattr(experiment, "run", lambda: iter(rows))
    monkeypatch.chdir(tmp_path)
    return repri("demo")


def test_a_table_that_says_what_was_measured(done):
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert "with a mask that was drawn by hand:" in lines
    table = [line.split() for line in lines]
    assert ["annotated", "query", "prototype", "CE", "CE+H", "RePRI"] in table
    assert ["coin:", "row_1", "rows_2_to_4", "50", "60", "70", "80"] in table
    assert ["mean", "71", "75", "80", "85"] in table
    assert "RePRI is better than prototypes on 1 of 2 queries and worse on 1 (by up to 2)." in lines
    assert "From CE on, an expert on textures takes part for coin:" in lines


def test_the_files_and_what_to_do_next(done, tmp_path):
    assert "The figure: demo/repri.png" in done.out
    assert (tmp_path / "demo" / "repri.png").stat().st_size > 10_000
    assert {path.name for path in (tmp_path / "demo" / "examples").iterdir()} == set(EXAMPLES)
    end = done.out.partition("What to do next:")[2]
    assert "\n  repri serve\n" in end
    assert "repri try" in end
    command = end.partition("repri segment ")[2].split()
    for flag in ("--support", "--query"):
        assert (tmp_path / command[command.index(flag) + 1]).is_dir()
