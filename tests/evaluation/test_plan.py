"""What an evaluation will do, and every mistake that can be found before it begins."""

import json
from dataclasses import replace

import pytest
import torch
from PIL import Image

from repri.data import save_tasks
from repri.evaluation import EvaluationSettings, evaluate_folds, plan_evaluation
from repri.runtime.errors import RepriError
from tests.data.make import tiny_pascal
from tests.make import Cells
from tests.textures import make_textures


def changed(base, section, /, **changes):
    return replace(base, **{section: replace(getattr(base, section), **changes)})


@pytest.fixture(scope="module")
def pascal(tmp_path_factory):
    return str(tiny_pascal(tmp_path_factory.mktemp("pascal")))


def of_pascal(root, **extractor):
    base = changed(changed(EvaluationSettings(), "data", root=root), "tasks", tasks=2, runs=1)
    return changed(base, "extractor", **extractor)


def shifted(root, protocol="clean"):
    base = changed(EvaluationSettings(protocol=protocol), "data", name="coco", test_data="pascal", test_root=root)
    return plan_evaluation(changed(base, "tasks", tasks=3, runs=1))


def test_tasks_of_every_fold_and_number_of_shots(settings):
    plan = plan_evaluation(settings(shots=(1, 3)))
    assert set(plan.tasks) == {(1, 0), (3, 0), (1, 1), (3, 1)}
    assert plan.folds == [0, 1]
    assert plan.classes(1) == ["along"]
    assert (plan.refine, plan.precision, plan.protocol.name) == ("guided", "half", "clean")
    official = plan_evaluation(settings(protocol="official"))
    assert (official.refine, official.precision) == ("none", "single")
    assert plan_evaluation(settings(refine="none", precision="single")).precision == "single"
    assert [len(run) for run in plan.tasks[3, 0].runs] == [10, 10]
    assert all(len(task.support) == 3 for run in plan.tasks[3, 0].runs for task in run)


def test_a_shipped_task_list(settings, run, filters, tmp_path):
    usual = settings(folds=(1,), shots=(2,))
    path = tmp_path / "tasks.json"
    save_tasks(plan_evaluation(usual).tasks[2, 1], path)
    listed = plan_evaluation(changed(settings(folds=(1,)), "tasks", tasks=1000, runs=5, task_list=str(path)))
    assert (listed.settings.tasks.shots, listed.settings.tasks.runs, listed.settings.tasks.tasks) == ((2,), 2, 10)
    result, expected = evaluate_folds(listed, lambda fold: filters)[2], run(folds=(1,), shots=(2,))[2]
    assert result["tasks"] == expected["tasks"]
    assert result["per_fold"]["1"]["tasks_hash"] == expected["per_fold"]["1"]["tasks_hash"]
    content = json.loads(path.read_text())
    content["runs"][0][0]["query"] = content["runs"][0][0]["support"][0]
    (tmp_path / "own.json").write_text(json.dumps(content | {"hash": None}))
    for folds, file, sentence in (
        ((0,), "tasks", "tests 'along', which fold 0 does not hold out"),
        ((1,), "own", "tasks of 2 support images each, none of them the query"),
        (None, "tasks", r"The task list .*tasks\.json belongs to one fold: name it with --fold"),
    ):
        with pytest.raises(RepriError, match=sentence):
            plan_evaluation(settings(folds=folds, task_list=str(tmp_path / f"{file}.json")))


def test_the_embedded_model_has_not_seen_what_is_tested(settings, pascal, tmp_path):
    assert plan_evaluation(of_pascal(pascal)).settings.extractor.name == "default-fold{fold}"
    assert plan_evaluation(of_pascal(pascal, name="filters")).settings.extractor.name == "filters"
    assert shifted(pascal).settings.extractor.name == "distilled"
    assert plan_evaluation(settings()).settings.extractor.name == "default"
    named = make_textures(tmp_path / "named")
    named.write_text(named.read_text().replace("across", "airplane"))  # COCO's name of a class of PASCAL's
    assert plan_evaluation(changed(settings(), "data", name=str(named))).settings.extractor.name == "distilled"
    some = changed(settings(), "extractor", layers=("layer3",))
    assert plan_evaluation(some).settings.extractor.name == "distilled"
    with pytest.raises(RepriError, match="The setting weights needs an extractor to which the weights belong"):
        plan_evaluation(changed(settings(), "extractor", weights="other.pth"))


def test_coco_to_pascal_takes_classes_by_name(pascal):
    assert set(shifted(pascal).tasks[1, 3].classes.values()) == {"bottle", "cat", "cow", "motorbike"}
    official = shifted(pascal, "official")
    assert set(official.tasks[1, 3].classes.values()) == {"bottle", "car", "cow", "motorbike"}


def test_the_preset_is_the_one_asked_for_the_protocols_or_the_extractors(settings):
    plain, knowing = Cells(), Cells()
    knowing.background = torch.ones(4)
    plan = plan_evaluation(settings())
    assert plan.preset({0: plain, 1: plain}) == "clean"
    assert plan.preset({0: knowing}) == "discriminant"
    assert plan_evaluation(settings(protocol="paper")).preset({0: knowing}) == "paper"
    asked = plan_evaluation(changed(settings(), "method", preset="trained"))
    assert asked.preset({0: plain, 1: knowing}) == "trained"
    with pytest.raises(RepriError, match=r"want different presets \(fold 0 clean, fold 1 discriminant\): choose one"):
        plan.preset({0: plain, 1: knowing})
    told = plan_evaluation(changed(settings(), "method", preset="discriminant"))
    with pytest.raises(RepriError, match=r"that knows the direction of backgrounds, and cells \(fold 0\) does not"):
        told.preset({0: plain})


@pytest.mark.parametrize(
    ("section", "changes", "sentence"),
    [
        ("data", {"test_data": "mars"}, "to mars is not known: only coco to pascal is"),
        ("data", {"test_root": "/nowhere"}, "test_root is the folder of another data set to test on, and none is"),
        ("data", {"min_pixels": 0}, "min_pixels must be at least 1, got 0"),
        ("data", {"folds": (7,)}, "made has the folds 0 to 1, not 7"),
        ("tasks", {"shots": (20,)}, "with at least 200 pixels of 'across', and 20 shots need 21: use fewer shots"),
        ("method", {"name": "repry"}, "There is no method named 'repry', did you mean 'repri'"),
        ("method", {"settings": {"lrr": 1}}, "There is no inference setting named 'lrr', did you mean 'lr'"),
        ("method", {"preset": "clear"}, "There is no preset named 'clear', did you mean 'clean'"),
    ],
)
def test_mistakes_are_found_at_once(settings, section, changes, sentence):
    with pytest.raises(RepriError, match=sentence):
        plan_evaluation(changed(settings(), section, **changes))


def test_unknown_protocols_and_refinements(settings):
    with pytest.raises(RepriError, match=r"There is no protocol named 'pure'\. Known: clean, paper, official"):
        plan_evaluation(settings(protocol="pure"))
    with pytest.raises(RepriError, match="There is no refinement named 'gided', did you mean 'guided'"):
        plan_evaluation(settings(refine="gided"))


def test_a_mask_of_another_size_is_refused(settings, tmp_path):
    data = make_textures(tmp_path / "data")
    path = data.parent / "SegmentationClassAug" / "3.png"
    with Image.open(path) as mask:
        mask.crop((0, 0, 32, 48)).save(path)
    with pytest.raises(RepriError, match=r"3\.png is 32×48 and its image .*3\.png is 64×48"):
        plan_evaluation(changed(settings(), "data", name=str(data)))
