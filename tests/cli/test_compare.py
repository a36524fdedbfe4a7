"""``repri compare`` from end to end."""

import pytest
from PIL import Image

from repri.evaluation.results import load_result, save_result


@pytest.fixture
def results(repri, short, tmp_path):
    """Files of two methods on the same tasks."""
    paths = [tmp_path / f"{method}.json" for method in ("prototype", "ce")]
    for path in paths:
        done = repri("evaluate", *short, "--method", path.stem, "--output", path)
        assert done.code == 0, done.err
    return paths


def test_results_are_compared_and_drawn(repri, results, tmp_path):
    done = repri("compare", *results, "--plot", tmp_path / "bare")
    assert done.code == 0, done.err
    assert max(map(len, done.out.splitlines()[:-1])) <= 80
    first, second = (load_result(path) for path in results)
    rows = [line.split() for line in done.out.splitlines() if "clean" in line]
    assert [row[1] for row in rows] == ["prototype", "ce"]
    assert f"{first['miou']:.1f}" in rows[0]
    assert f"{second['miou'] - first['miou']:+.1f}" in rows[1]
    assert done.out.replace("\n", "").endswith("bare.png")
    with Image.open(tmp_path / "bare.png") as figure:
        assert min(figure.size) > 100
    save_result(second | {"protocol": "paper"}, tmp_path / "other.json")
    refused = repri("compare", results[0], tmp_path / "other.json")
    assert refused.code == 1
    assert "differ in their protocol, so they do not compare methods alone: use --mixed" in refused.err
    assert repri("compare", results[0], tmp_path / "other.json", "--mixed").code == 0


def test_other_files_are_refused(repri, tmp_path):
    (tmp_path / "x.json").write_text("{}")
    done = repri("compare", tmp_path / "x.json")
    assert done == (1, "", f"repri: {tmp_path}/x.json is not a result written by `repri evaluate`.\n")
