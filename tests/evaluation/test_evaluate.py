"""The whole protocol on small data: exact, the same in one process and in two, comparable, refused when it must be."""

import json
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from repri.evaluation.evaluate import EvaluationConfig, Plan, evaluate, plan

from repri import InferenceConfig, infer, true_proportion
from repri.data.io.masks import write_mask
from repri.data.tasks.tasks import save_tasks
from repri.evaluation.metrics import count_pixels
from repri.evaluation.results import compare, load_result, save_result
from repri.features.view import resize
from repri.models import load_extractor
from tests.data.make import picture
from tests.processes import launcher


def make_data(root):
    """Twelve pictures of 48×64, two classes of different texture, in PASCAL's layout."""
    from PIL import Image

    lines = []
    for n in range(12):
        id = 1 + n % 2
        y, x = np.mgrid[:48, :64]
        mask = (np.hypot(y - 20 - n % 5, x - 30 - n % 7) < 14).astype(np.uint8) * id
        stripes = np.stack([128 + 100 * np.sin((x if id == 1 else y) / 2)] * 3, -1)
        image = np.where(mask[..., None] > 0, stripes, picture(48, 64, n) // 4).astype(np.uint8)
        mask[:2] = 255
        (root / "JPEGImages").mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(root / "JPEGImages" / f"{n}.png")
        write_mask(mask, root / "SegmentationClassAug" / f"{n}.png")
        lines.append(f"JPEGImages/{n}.png SegmentationClassAug/{n}.png")
    (root / "lists" / "pascal").mkdir(parents=True)
    (root / "lists" / "pascal" / "val.txt").write_text("\n".join(lines) + "\n")
    (root / "data.yaml").write_text(
        "name: made\nclasses: [across, along]\nsplits: {val: lists/pascal/val.txt}\nfolds: [[across], [along]]\n"
    )
    return root


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("REPRI_CACHE", str(tmp_path / "cache"))
    return make_data(tmp_path / "data")


def configured(root, **changes):
    values = {"data": str(root / "data.yaml"), "tasks": 10, "runs": 2, "min_pixels": 200, "size": 64}
    return EvaluationConfig(**(values | changes))


def run(config):
    return evaluate(plan(config), lambda fold: load_extractor("filters"))


@pytest.mark.parametrize("protocol", ["clean", "official", "paper"])
@pytest.mark.parametrize("method", ["repri", "repri-oracle"])
def test_scores_are_those_of_the_definition(root, protocol, method):
    """Each task again, from the picture to the counts, without the store and the runner."""
    config = configured(root, protocol=protocol, method=method, shots=(2,), folds=(0,))
    planned = plan(config)
    found = run(config)[2]["tasks"]["0"]["pixels"]
    extractor = load_extractor("filters")
    multiple = extractor.rule.multiple if extractor.rule.multiple > 1 or protocol == "clean" else None
    tasks = [task for members in planned.tasks[2, 0].runs for task in members]
    for task, pixels in list(zip(tasks, found, strict=True))[:6]:
        images, labels = [], []
        for id in (*task.support, task.query):
            image, mask = planned.dataset.pair(id)
            mask = np.where(mask == 255, 255, mask == task.class_id).astype(np.uint8)
            item = resize(image, mask, protocol, 64, multiple)
            images.append(extractor.extract(item.image[None])[0].half().float())
            labels.append(item.mask)
        valid = {"clean": item.valid, "paper": torch.ones_like(item.valid), "official": item.mask != 255}[protocol]
        known = true_proportion(item.mask[None], images[-1].shape[-2:]) if method == "repri-oracle" else None
        preset = InferenceConfig.preset(protocol + ("-oracle" if method == "repri-oracle" else ""))
        stacked = torch.stack(images[:-1])[None], torch.stack(labels[:-1])[None]
        out = infer(*stacked, images[-1][None], preset, valid[None], known)
        logits = out.logits(images[-1][None])[0]
        full = F.interpolate(
            logits[None, None], item.valid.shape, mode="bilinear", align_corners=protocol == "official"
        )
        if protocol == "clean":
            content, original = item.geometry.content, item.geometry.original
            full = F.interpolate(full[..., : content[0], : content[1]], original, mode="bilinear", align_corners=False)
            truth = torch.from_numpy(mask)
        else:
            truth = item.mask
        wanted = count_pixels(full[0, 0] > 0, truth)
        assert np.abs(np.array(wanted) - pixels).max() <= 2  # a pixel on the border may round either way


def test_a_result_says_what_it_is(root, tmp_path):
    results = run(configured(root, shots=(1, 3)))
    assert set(results) == {1, 3}
    found = results[3]
    assert found["miou"] == pytest.approx(np.mean([fold["miou"] for fold in found["per_fold"].values()]))
    assert set(found["per_class"]) == {"across", "along"}
    assert found["interval"][0] <= found["miou"] <= found["interval"][1]
    assert found["protocol"] == "clean"
    assert found["config"]["settings"]["steps"] == 50
    assert found["proportion_error"]["initial"] >= 0
    assert found["miou"] > 50
    save_result(found, tmp_path / "x.json")
    assert load_result(tmp_path / "x.json")["miou"] == found["miou"]


def test_a_shipped_task_list(root, tmp_path):
    config = configured(root, folds=(1,), shots=(2,))
    path = tmp_path / "tasks.json"
    save_tasks(plan(config).tasks[2, 1], path)
    listed = plan(EvaluationConfig(data=config.data, size=64, folds=(1,), task_list=str(path)))
    assert (listed.config.shots, listed.config.runs, listed.config.tasks) == ((2,), 2, 10)
    found, wanted = evaluate(listed, lambda fold: load_extractor("filters"))[2], run(config)[2]
    assert found["tasks"] == wanted["tasks"]
    assert found["per_fold"]["1"]["tasks_hash"] == wanted["per_fold"]["1"]["tasks_hash"]
    with pytest.raises(ValueError, match="tests 'along', which fold 0 does not hold out"):
        plan(configured(root, folds=(0,), task_list=str(path)))
    content = json.loads(path.read_text())
    content["runs"][0][0]["query"] = content["runs"][0][0]["support"][0]
    (tmp_path / "own.json").write_text(json.dumps(content | {"hash": None}))
    with pytest.raises(ValueError, match="tasks of 2 support images each, none of them the query"):
        plan(configured(root, folds=(1,), task_list=str(tmp_path / "own.json")))
    with pytest.raises(ValueError, match="of one fold"):
        plan(configured(root, task_list=str(path)))


def test_half_precision_changes_next_to_nothing(root):
    half, single = (run(configured(root, precision=precision))[1] for precision in ("half", "single"))
    assert abs(half["miou"] - single["miou"]) < 0.5
    assert half["timing"]["peak_memory_gb"] > 0


def command(root, output, *more):
    options = ["evaluate", "--data", root / "data.yaml", "--tasks", 11, "--runs", 2, "--min-pixels", 200, "--size", 64]
    return [*map(str, options), "--extractor", "filters", "--output", str(output), *more]


def test_two_processes_give_what_one_gives(root, tmp_path):
    one, two = tmp_path / "one.json", tmp_path / "two.json"
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-m", "repri", *command(root, one)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "mean" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
    launch = [*launcher(2), "-m", "repri"]
    environment["REPRI_CACHE"] = str(tmp_path / "other-cache")
    done = subprocess.run([*launch, *command(root, two)], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    first, second = load_result(one), load_result(two)
    assert first["tasks"] == second["tasks"]
    assert first["miou"] == second["miou"]
    assert second["timing"]["processes"] == 2


def test_comparing(root, tmp_path):
    for name, method, seed in (("a", "prototype", 0), ("b", "repri", 0), ("c", "repri", 1)):
        save_result(run(configured(root, method=method, seed=seed))[1], tmp_path / f"{name}.json")
    paths = [tmp_path / f"{name}.json" for name in "abc"]
    rows = compare(paths[:2])
    centre, low, high = rows[1].difference
    assert centre == pytest.approx(rows[1].result["miou"] - rows[0].result["miou"])
    assert low <= centre <= high
    with pytest.raises(ValueError, match=r"c.json and .*a.json differ in their task list"):
        compare(paths)
    assert compare(paths, mixed=True)[2].difference is None
    small = {key: value for key, value in load_result(paths[1]).items() if key != "tasks"}
    save_result(small, tmp_path / "small.json")
    assert compare([paths[0], tmp_path / "small.json"])[1].difference is None
    (tmp_path / "d.json").write_text(json.dumps(load_result(paths[1]) | {"protocol": "paper"}))
    with pytest.raises(ValueError, match="differ in their protocol"):
        compare([paths[0], tmp_path / "d.json"])
    picture_path = tmp_path / "plot.png"
    done = repri("compare", *paths[:2], "--plot", picture_path)
    assert done.returncode == 0, done.stderr
    assert picture_path.stat().st_size > 5000
    done = repri("compare", *paths[:2], "--plot", tmp_path / "bare")
    assert done.stdout.endswith("bare.png\n"), done.stderr
    (tmp_path / "f.json").write_text('{"format": "repri-result-1"}')
    assert "lacks 'miou'" in repri("compare", paths[0], tmp_path / "f.json").stderr
    (tmp_path / "e.json").write_text("{}")
    assert "is not a result" in repri("compare", paths[0], tmp_path / "e.json").stderr


def repri(*arguments):
    return subprocess.run([sys.executable, "-m", "repri", *map(str, arguments)], capture_output=True, text=True)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--method", "repry"), "no method named 'repry', did you mean 'repri'"),
        (("--shots", "20"), "and 20 shots need 21"),
        (("--shots", "one"), "--shots takes whole numbers"),
        (("--set", "lrr=1"), "unknown inference setting 'lrr'"),
        (("--set", "lr"), "--set takes name=value"),
        (("--protocol", "pure"), "protocol: input should be"),
        (("--fold", "7"), "has the folds 0 to 1, not 7"),
        (("--output", "/proc/x/y.json"), "cannot write /proc/x/y.json"),
        (("--test-data", "mars"), "is not known: only coco to pascal"),
        (("--test-root", "/nowhere"), "test_root: is of another data set"),
        (("--task-list", "list.json", "--seed", "3"), "the task list list.json says that itself"),
        (("--min-pixels", "0"), "min_pixels must be at least 1"),
        (("--extractor", "nosuch"), "'nosuch'"),
        (("--shifts", "3"), "pixels wide, which 3 shifts do not divide"),
    ],
)
def test_mistakes_are_found_before_any_work(root, tmp_path, more, message):
    done = repri(*command(root, tmp_path / "x.json"), *more)
    assert done.returncode == 1
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "cache" / "features").exists()
    assert message != "'nosuch'" or not (tmp_path / "cache" / "index").exists()  # not even the masks were counted


def test_a_mask_of_another_size_is_refused(root):
    from PIL import Image

    path = root / "SegmentationClassAug" / "3.png"
    with Image.open(path) as mask:
        mask.crop((0, 0, 32, 48)).save(path)
    with pytest.raises(ValueError, match=r"3\.png is 32×48 and its image .*3\.png is 64×48"):
        plan(configured(root))


def test_a_budget_for_the_largest_fold_is_asked_for_at_once(root, monkeypatch):
    """Fold 1 has more pictures than the store may hold: said before fold 0 is done."""
    planned = plan(configured(root, shots=(1,)))
    tasks = dict(planned.tasks)
    one = replace(tasks[1, 0], runs=(tasks[1, 0].runs[0][:1],) * 2)  # two pictures
    few = Plan(planned.config, planned.dataset, planned.method, {(1, 0): one, (1, 1): tasks[1, 1]})
    monkeypatch.setenv("REPRI_STORE_GB", str(3 * 64 * 6 * 8 * 2 / 1e9))
    told = []
    with pytest.raises(ValueError, match="the store may hold"):
        evaluate(few, lambda fold: load_extractor("filters"), report=lambda what, *_: told.append(what))
    assert set(told) <= {"features, fold 0"}


def test_settings_from_yaml_and_flags(root, tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text(
        f"data: {root / 'data.yaml'}\ntasks: 4\nruns: 1\nmin_pixels: 200\nsize: 64\nshifts: 2\nsettings: {{steps: 3}}\n"
    )
    output = tmp_path / "x.json"
    done = repri("evaluate", "--config", config, "--method", "repri-oracle", "--set", "delta=0.5", "--output", output)
    assert done.returncode == 0, done.stderr
    resolved = load_result(output)["config"]
    assert (resolved["tasks"], resolved["settings"]["steps"], resolved["settings"]["delta"]) == (4, 3, 0.5)
    assert resolved["shifts"] == 2
    config.write_text("tsks: 3\n")
    assert "unknown setting 'tsks', did you mean 'tasks'" in repri("evaluate", "--config", config).stderr


def test_a_file_may_be_spelled_like_the_flags(root, tmp_path):
    config, output = tmp_path / "config.yaml", tmp_path / "x.json"
    config.write_text(
        f"data: {root / 'data.yaml'}\ntasks: 2\nruns: 1\nmin_pixels: 200\nextractor: filters\nsize: 64\n"
        f"fold: 1\nshots: 1\nset: {{steps: 3}}\noutput: {output}\n"
    )
    done = repri("evaluate", "--config", config)
    assert done.returncode == 0, done.stderr
    resolved = load_result(output)["config"]
    assert (resolved["folds"], resolved["shots"], resolved["settings"]["steps"]) == ([1], 1, 3)
    for text, message in (
        ("fold: 0\nfolds: [1]\n", "fold and folds say the same"),
        ("shots: one\n", "config.yaml: shots takes whole numbers with commas, got 'one'"),
        ("set: 3\n", "settings"),
    ):
        config.write_text(text)
        assert message in repri("evaluate", "--config", config).stderr


def test_the_embedded_model_has_not_seen_what_is_tested(root, tmp_path):
    from tests.data.make import tiny_pascal

    folder = str(tiny_pascal(tmp_path / "pascal"))
    few = {"root": folder, "tasks": 2, "runs": 1}
    assert plan(EvaluationConfig("pascal", **few)).config.extractor == "default-fold{fold}"
    shift = EvaluationConfig("coco", test_data="pascal", test_root=folder, tasks=2, runs=1)
    assert plan(shift).config.extractor == "distilled"
    assert plan(configured(root)).config.extractor == "default"
    described = root / "data.yaml"
    described.write_text(described.read_text().replace("across", "airplane"))
    assert plan(configured(root)).config.extractor == "distilled"  # COCO's name of a class of PASCAL's
    assert plan(configured(root, layers=("layer3",))).config.extractor == "distilled"
    with pytest.raises(ValueError, match="weights: say of which extractor"):
        plan(configured(root, weights="other.pth"))
    assert plan(EvaluationConfig("pascal", extractor="filters", **few)).config.extractor == "filters"


def test_a_warning_is_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setenv("REPRI_CACHE", str(tmp_path / "cache"))
    from tests.data.make import tiny_pascal

    folder = tiny_pascal(tmp_path / "pascal")
    few = ("--fold", "0", "--tasks", "2", "--runs", "1", "--min-pixels", "1", "--size", "64", "--output")
    done = repri("evaluate", "--root", folder, "--extractor", "default", *few, tmp_path / "x.json")
    assert done.returncode == 0, done.stderr
    assert "which are not new to default: it was trained with their labels" in done.stderr
    assert "repri: warning: fold 0 tests" in done.stderr
    assert "UserWarning" not in done.stderr
    assert "not new to the extractor" in done.stdout
    assert load_result(tmp_path / "x.json")["seen"]["0"]
    honest = repri("evaluate", "--root", folder, *few, tmp_path / "y.json")
    assert honest.returncode == 0, honest.stderr
    assert "warning" not in honest.stderr
    assert load_result(tmp_path / "y.json")["extractor"]["0"]["name"] == "default-fold0"


def test_coco_to_pascal_takes_classes_by_name(tmp_path, monkeypatch):
    monkeypatch.setenv("REPRI_CACHE", str(tmp_path / "cache"))
    from tests.data.make import tiny_pascal

    root = tiny_pascal(tmp_path / "pascal")
    config = EvaluationConfig(data="coco", test_data="pascal", test_root=str(root), tasks=3, runs=1, shots=(1,))
    assert set(plan(config).tasks[1, 3].classes.values()) == {"bottle", "cat", "cow", "motorbike"}
    official = EvaluationConfig(
        data="coco", test_data="pascal", test_root=str(root), tasks=3, runs=1, protocol="official"
    )
    assert set(plan(official).tasks[1, 3].classes.values()) == {"bottle", "car", "cow", "motorbike"}
