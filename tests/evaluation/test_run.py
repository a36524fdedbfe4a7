"""The whole protocol on small data."""

from dataclasses import replace

import numpy as np
import pytest

from repri import evaluate, load_extractor, open_dataset, sample_tasks
from repri.data.datasets.index import class_index
from repri.evaluation import Plan, evaluate_folds, plan_evaluation
from repri.methods import Training, build_method, save_method
from repri.runtime.errors import RepriError
from tests.make import Cells


@pytest.fixture(scope="module")
def results(request, tmp_path_factory, textures, filters):
    """One run with one and three shots."""
    from repri.evaluation.settings import DataSettings, EvaluationSettings, TaskSettings
    from repri.models.settings import ExtractorSettings

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REPRI_CACHE", str(request.getfixturevalue("cache")))
        settings = EvaluationSettings(
            DataSettings(str(textures), min_pixels=200),
            TaskSettings(shots=(1, 3), runs=2, tasks=10),
            ExtractorSettings(size=64),
        )
        return evaluate_folds(plan_evaluation(settings), lambda fold: filters)


def test_a_result_says_what_it_is(results):
    assert set(results) == {1, 3}
    result = results[3]
    assert result["miou"] == pytest.approx(np.mean([fold["miou"] for fold in result["per_fold"].values()]))
    assert set(result["per_class"]) == {"across", "along"}
    assert result["interval"][0] <= result["miou"] <= result["interval"][1]
    assert (result["protocol"], result["method"], result["shots"]) == ("clean", "repri", 3)
    config = result["config"]
    assert config["method"]["settings"]["steps"] == 50
    assert (config["method"]["preset"], config["refine"], config["precision"]) == ("clean", "guided", "half")
    assert (config["tasks"]["shots"], config["data"]["folds"]) == (3, [0, 1])
    assert result["proportion_error"]["initial"] >= 0
    assert result["extractor"][0]["name"] == "filters"
    assert result["extractor"][0]["size"] == 64
    assert result["timing"]["peak_memory_gb"] > 0
    assert result["miou"] > 50
    assert results[1]["tasks"] != result["tasks"]


def test_one_list_of_tasks_gives_what_the_whole_protocol_gives(textures, filters, run):
    """The public function, whose store is the user's cache."""
    dataset = open_dataset(textures)
    index = class_index(dataset, min_pixels=200)
    tasks = sample_tasks(dataset, dataset.novel(1), 1, 10, 2, index=index)
    small = load_extractor("filters")
    small.rule = small.rule._replace(size=64)
    told = []
    outcome = evaluate(dataset, tasks, small, progress=lambda *facts: told.append(facts[:2]))
    whole = run(folds=(1,))[1]
    assert outcome.counts.pixels.tolist() == whole["tasks"]["1"]["pixels"]
    assert outcome.scores().miou == whole["miou"]
    assert told == [(20, 20)]
    method = build_method("repri", "clean")
    assert np.array_equal(evaluate(dataset, tasks, small, method).counts.pixels, outcome.counts.pixels)


def test_half_precision_changes_next_to_nothing(run):
    half, single = (run(precision=precision)[1] for precision in ("half", "single"))
    assert abs(half["miou"] - single["miou"]) < 0.5


def test_a_budget_for_the_largest_fold_is_asked_for_at_once(settings, filters, monkeypatch, tmp_path):
    """Fold 1 has more images than the store may hold: the error comes before fold 0 is done."""
    plan = plan_evaluation(settings())
    tasks = dict(plan.tasks)
    one = replace(tasks[1, 0], runs=(tasks[1, 0].runs[0][:1],) * 2)  # two images
    few = Plan(plan.settings, plan.dataset, plan.protocol, {(1, 0): one, (1, 1): tasks[1, 1]})
    monkeypatch.setenv("REPRI_CACHE", str(tmp_path))
    monkeypatch.setenv("REPRI_STORE_GB", str(3 * 64 * 6 * 8 * 2 / 1e9))
    told = []
    with pytest.raises(RepriError, match=r"The features of 6 images take .* GB and the store may hold .* GB"):
        evaluate_folds(few, lambda fold: filters, report=lambda what, *_: told.append(what))
    assert set(told) <= {"features, fold 0"}


def test_classes_that_the_extractor_was_trained_with_are_reported(settings):
    plan = plan_evaluation(settings(folds=(0,), method="prototype"))
    extractor = Cells(4)
    extractor.seen = ("along", "across")
    with pytest.warns(UserWarning, match="Fold 0 tests across, which are not novel to cells: it was trained with"):
        result = evaluate_folds(plan, lambda fold: extractor)[1]
    assert result["seen"] == {0: ["across"]}
    assert result["proportion_error"] is None


def test_trained_methods_of_folds(textures, filters, settings, tmp_path):
    """Each fold has its own file; another extractor is refused, and classes of the training are told."""
    for fold, seen in ((0, ()), (1, ("across", "along"))):
        method = build_method("panet", settings={"width": 8})
        method.start(filters.widths, seed=fold)
        method.training = Training("filters", filters.identity, filters.widths, seen, 1, 3)
        save_method(tmp_path / f"panet-fold{fold}" / "method.safetensors", method)
    plan = plan_evaluation(settings(method=f"{tmp_path}/panet-fold{{fold}}", shots=(1,)))
    with pytest.warns(UserWarning, match="which are not novel to panet: it was trained with their labels"):
        result = evaluate_folds(plan, lambda fold: filters)[1]
    assert result["trained"][0]["episodes"] == 3
    assert [len(result["seen"][fold]) for fold in (0, 1)] == [0, 1]
    named = settings(shots=(1,), folds=(0,))
    chosen = replace(named.method, name="panet", weights=str(tmp_path / "panet-fold{fold}"))
    again = evaluate_folds(plan_evaluation(replace(named, method=chosen)), lambda fold: filters)[1]
    first, same = (next(iter(values["per_fold"].values())) for values in (result, again))
    assert first["miou"] == same["miou"]
    with pytest.raises(RepriError, match=r"was trained on features of filters, and .* here has other weights"):
        evaluate_folds(plan, lambda fold: Cells(8))
