"""``repri reproduce``."""

import pytest

from repri.data.datasets.scenes import make_dataset


@pytest.fixture
def scenes(tmp_path, monkeypatch):
    cache = tmp_path / "cache"
    make_dataset(cache / "scenes-1", train=8, val=24, size=161)
    monkeypatch.setenv("REPRI_CACHE", str(cache))
    monkeypatch.chdir(tmp_path)


def test_list_names_every_item(repri):
    from repri.experiments.items import ITEMS

    lines = repri("reproduce", "list").out.splitlines()
    assert [line.split()[0] for line in lines] == list(ITEMS)


def test_a_dry_run_computes_nothing_and_a_run_does(repri, scenes, tmp_path):
    flags = ("reproduce", "figure3a", "--budget", "quick", "--tasks", 3)
    planned = repri(*flags, "--dry-run")
    assert planned.code == 0
    assert "missing: scenes RePRI, 1-shot, fold 0, 1×3 tasks" in planned.out
    assert "measured: repri, 1-shot" in planned.out
    assert not (tmp_path / "reproduced/cells").exists()
    done = repri(*flags)
    assert "1 cells, 1 to compute" in done.out
    assert (tmp_path / "reproduced/figure3a.svg").is_file()
    assert "Nothing is missing." in repri(*flags, "--dry-run").out


def test_stored_results_are_enough_without_data(repri, tmp_path, monkeypatch):
    from pathlib import Path

    results = Path(__file__).parents[2] / "results"
    monkeypatch.chdir(tmp_path)
    done = repri("reproduce", "table3", "--budget", "full", "--results", results)
    assert done.code == 0, done.err
    text = (tmp_path / "reproduced/table3.md").read_text()
    assert "| | ours | 58.0 ± 0.5 | 64.9 ± 0.4 | 67.1 ± 0.4 |" in text
    assert "| | difference | −1.1 ± 0.5 | −1.9 ± 0.4 | −1.1 ± 0.4 |" in text
    assert "--root is not given" in text


def test_mistakes_are_one_sentence(repri):
    assert "no item named 'tabel5', did you mean 'table5'" in repri("reproduce", "tabel5").err
    assert "--budget must be full or here or quick, got 'ful'" in repri("reproduce", "table5", "--budget", "ful").err
