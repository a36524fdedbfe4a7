"""Result files and their comparison."""

import json

import pytest

from repri.evaluation.results import compare, load_result, save_result
from repri.runtime.errors import RepriError


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("results")


@pytest.fixture
def paths(folder, run):
    """Files of two methods on the same tasks, and of one on others."""
    files = [folder / f"{name}.json" for name in ("prototype", "repri", "other")]
    if not files[-1].is_file():
        for path, method, seed in zip(files, ("prototype", "repri", "prototype"), (0, 0, 1), strict=True):
            save_result(run(method=method, seed=seed)[1], path)
    return files


def test_a_file_is_read_as_it_was_written(paths):
    result = load_result(paths[1])
    assert result["method"] == "repri"
    save_result(result, paths[1])
    assert load_result(paths[1]) == result


def test_results_of_the_same_tasks_are_compared_in_pairs(paths):
    first, second = compare(paths[:2])
    assert first.difference is None
    centre, low, high = second.difference
    assert centre == pytest.approx(second.result["miou"] - first.result["miou"])
    assert low <= centre <= high


def test_results_of_other_tasks_or_protocols_are_refused_unless_mixed(paths, tmp_path):
    sentence = r"other\.json and .*prototype\.json differ in their task list, so they do not compare methods alone"
    with pytest.raises(RepriError, match=sentence):
        compare(paths)
    assert compare(paths, mixed=True)[2].difference is None
    other = tmp_path / "paper.json"
    save_result(load_result(paths[1]) | {"protocol": "paper"}, other)
    with pytest.raises(RepriError, match=r"differ in their protocol, .*: use --mixed to compare them all the same"):
        compare([paths[0], other])


def test_tasks_may_be_removed_to_make_a_file_small(paths, tmp_path):
    small = {key: value for key, value in load_result(paths[1]).items() if key != "tasks"}
    save_result(small, tmp_path / "small.json")
    assert compare([paths[0], tmp_path / "small.json"])[1].difference is None


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, r"cannot read .*x\.json: No such file"),
        ("no JSON", r"x\.json is not JSON \(Expecting value"),
        ("[]", r"x\.json is not a result written by `repri evaluate`\."),
        ('{"format": "repri-result-1"}', "lacks 'miou', which every result written by `repri evaluate` has"),
    ],
)
def test_other_files_are_refused(tmp_path, content, sentence):
    if content is not None:
        (tmp_path / "x.json").write_text(content)
    with pytest.raises(RepriError, match=sentence):
        load_result(tmp_path / "x.json")


def test_a_file_whose_folds_do_not_fit_was_changed(paths, tmp_path):
    content = json.loads(paths[0].read_text())
    del content["tasks"]["1"]
    (tmp_path / "x.json").write_text(json.dumps(content))
    with pytest.raises(RepriError, match=r"x\.json was changed: its tasks belong to other folds than its results"):
        load_result(tmp_path / "x.json")
