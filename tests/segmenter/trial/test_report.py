"""The files of a trial."""

import json
import math
import sys
from dataclasses import replace

import numpy as np
import pytest

from repri import RepriError
from repri.segmenter.trial.draws import plan_draws, read_folder
from repri.segmenter.trial.report import check_output, choices, labels, percent, spread, trial_data, write_report
from repri.segmenter.trial.run import Figure, FolderResult, Outcome, run_draw, segmenters
from repri.segmenter.trial.settings import TrialSettings
from tests.make import annotated_folder, build_quick

SETTINGS = TrialSettings(shots=(1, 2, 9), draws=2, queries=2, methods=("ce", "prototype"))


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    """A trial of five images with a name that HTML must escape."""
    folder = read_folder(annotated_folder(tmp_path_factory.mktemp("trial") / "a<b>&c", 5, ("red", "<i>")), SETTINGS)
    plan = plan_draws(folder, SETTINGS)
    outcomes = []
    for method in SETTINGS.methods:
        segmenter = segmenters(method, build_quick())
        for shots, draws in plan.draws.items():
            scored = tuple(run_draw(segmenter, folder, draw, SETTINGS, shots == 2) for draw in draws)
            outcomes.append(Outcome(method, shots, folder.classes, scored))
    return FolderResult("a<b>&c", folder, plan, tuple(outcomes))


def test_everything_is_written(result, tmp_path):
    out = tmp_path / "out"
    check_output(out)
    assert write_report([result], SETTINGS, out) == []
    assert {path.name for path in out.iterdir()} == {
        "trial.json",
        "curve.png",
        "best.jpg",
        "worst.jpg",
        "index.html",
    }
    page = (out / "index.html").read_text()
    assert "a&lt;b&gt;&amp;c" in page
    assert "&lt;i&gt;" in page
    assert "a<b>" not in page
    assert "<i>" not in page
    assert page.count("<img") == 3
    assert "9 shots were left out: there are only 5 annotated images." in page
    check_output(out)  # which a trial wrote


def test_several_folders_have_sheets_of_their_own(result, tmp_path):
    other = FolderResult("other", result.folder, result.plan, result.outcomes)
    write_report([result, other], SETTINGS, tmp_path)
    sheets = sorted(path.name for path in tmp_path.glob("*.jpg"))
    assert sheets == ["best-1-a_b__c.jpg", "best-2-a_b__c.jpg", "worst-1-a_b__c.jpg", "worst-2-a_b__c.jpg"]
    page = (tmp_path / "index.html").read_text()
    assert all(f'src="{name}"' in page for name in sheets)


def test_the_scores_can_be_made_again_from_the_file(result, tmp_path):
    write_report([result], SETTINGS, tmp_path)
    data = json.loads((tmp_path / "trial.json").read_text())
    assert data["format"] == "repri-trial-1"
    assert data["settings"]["shots"] == [1, 2, 9]
    assert {"repri", "torch", "numpy", "python"} == set(data["versions"])
    (folder,) = data["folders"]
    assert folder["left_out"] == {"9": "there are only 5 annotated images"}
    assert [(o["method"], o["shots"]) for o in folder["outcomes"]] == [
        ("ce", 1),
        ("ce", 2),
        ("prototype", 1),
        ("prototype", 2),
    ]
    for outcome in folder["outcomes"]:
        ious = []
        for draw in outcome["draws"]:
            assert not set(draw["support"]) & set(draw["queries"])
            hits, unions = np.sum(draw["intersections"], 0), np.sum(draw["unions"], 0)
            ious.append(np.mean(hits / unions))
            assert draw["iou"] == pytest.approx(ious[-1])
        assert outcome["iou"] == pytest.approx(np.mean(ious))
        assert outcome["std_draws"] == pytest.approx(np.std(ious))
        assert set(outcome["per_class"]) == {"red", "<i>"}


def test_the_file_has_no_nan(result):
    empty = [scored_without(scored) for scored in result.outcomes[0].draws]
    blank = FolderResult("x", result.folder, result.plan, (Outcome("ce", 1, result.folder.classes, tuple(empty)),))
    json.dumps(trial_data([blank], SETTINGS), allow_nan=False)


def scored_without(scored):
    """A draw in which nothing is shown and nothing predicted."""
    return replace(scored, hits=scored.hits * 0, unions=scored.unions * 0)


def test_without_matplotlib_the_rest_is_written(result, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    (problem,) = write_report([result], SETTINGS, tmp_path)
    assert problem == "There is no curve.png, because matplotlib is not installed: pip install 'repri[plot]'."
    assert not (tmp_path / "curve.png").exists()
    assert "curve.png" not in (tmp_path / "index.html").read_text()
    assert (tmp_path / "best.jpg").exists()


@pytest.mark.parametrize(("name", "text"), [("notes.txt", "mine"), ("trial.json", "{}"), ("trial.json", "[1]")])
def test_a_folder_of_somebody_else_is_refused(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    with pytest.raises(RepriError, match="is not empty and holds no trial: choose another folder with --output"):
        check_output(tmp_path)
    assert (tmp_path / name).read_text() == text


def test_a_file_in_the_way_is_refused(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(RepriError, match="Cannot write"):
        check_output(tmp_path / "file")


def test_figures_as_text(result):
    assert percent(Figure(math.nan, (math.nan, math.nan))) == ("-", "-")
    once = Outcome("ce", 1, result.folder.classes, result.outcomes[0].draws[:1])
    assert spread(once) == "-"
    assert spread(result.outcomes[0]) == f"{100 * result.outcomes[0].std:.1f}"


def test_choices_are_counted(result):
    draws = result.outcomes[0].draws
    same = tuple(replace(scored, choice="It took a.") for scored in draws)
    mixed = (same[0], replace(draws[1], choice="It took b."))
    assert choices(result.outcomes[0]) == []
    assert choices(replace(result.outcomes[0], draws=same)) == ["It took a."]
    assert choices(replace(result.outcomes[0], draws=mixed)) == [
        "It took a. (1 of 2 draws)",
        "It took b. (1 of 2 draws)",
    ]


def test_folders_of_one_name_are_told_apart(tmp_path):
    folders = [read_folder(annotated_folder(tmp_path / name, 2), SETTINGS) for name in ("a/x", "b/x", "y")]
    assert labels(folders) == [f"{tmp_path}/a/x", f"{tmp_path}/b/x", "y"]
