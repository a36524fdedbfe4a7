"""Tasks: the rules of drawing, seeds, and files."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from repri.data.datasets.index import class_index, class_lists
from repri.data.datasets.open import open_dataset
from repri.data.tasks.tasks import load_tasks, sample_tasks, save_tasks
from repri.runtime.errors import RepriError
from tests.data.make import block, save_ids, tiny_pascal


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    """Three images of each VOC class."""
    return open_dataset("pascal", tiny_pascal(tmp_path_factory.mktemp("pascal")))


@pytest.mark.parametrize("sampling", ["queries", "classes"])
def test_tasks_obey_the_rules(dataset, sampling):
    drawn = sample_tasks(dataset, dataset.novel(2), shots=2, tasks=40, runs=3, seed=5, sampling=sampling)
    assert [len(run) for run in drawn.runs] == [40] * 3
    for task in (task for run in drawn.runs for task in run):
        members = {f"{task.class_id:02}_{n}" for n in range(3)}
        assert task.class_id in dataset.novel(2)
        assert {task.query, *task.support} == members  # distinct, of the class, and the query apart
    if sampling == "queries":
        listed = [s.id for s in dataset.samples if int(s.id[:2]) in dataset.novel(2)]
        flat = [task.query for run in drawn.runs for task in run]
        assert flat == [listed[i % len(listed)] for i in range(120)]  # in order, carried on over the runs
    else:
        count = np.bincount([task.class_id for run in drawn.runs for task in run], minlength=16)[11:16]
        assert (count > 10).all()


def test_the_number_of_pixels_decides_about_queries_not_about_their_class(tmp_path):
    """A query with few pixels of a tested class, and enough of another, may be asked for either."""
    root = tiny_pascal(tmp_path, per_class=3)
    mixed = block(64, 64, 1, 2048)
    mixed[-1, :5] = 2
    save_ids(root / "SegmentationClassAug" / "01_0.png", mixed)
    tasks = sample_tasks(open_dataset("pascal", root), (1, 2), 1, 600, 1).runs[0]
    assert {task.class_id for task in tasks if task.query == "01_0"} == {1, 2}
    assert not any("01_0" in task.support for task in tasks if task.query == "01_0" or task.class_id == 2)


def test_the_same_seed_draws_the_same_tasks(dataset):
    first = sample_tasks(dataset, (1, 2, 3), 2, 30, 2, seed=1)
    assert first == sample_tasks(dataset, (1, 2, 3), 2, 30, 2, seed=1)
    assert first.hash != sample_tasks(dataset, (1, 2, 3), 2, 30, 2, seed=2).hash
    fewer = sample_tasks(dataset, (1, 2, 3), 1, 30, 2, seed=1)
    pairs_of_runs = zip(fewer.runs[0], first.runs[0], strict=True)
    assert all((a.class_id, a.query, a.support) == (b.class_id, b.query, b.support[:1]) for a, b in pairs_of_runs)
    code = (
        "from repri.data import open_dataset, sample_tasks; import sys;"
        "print(sample_tasks(open_dataset('pascal', sys.argv[1]), (1, 2, 3), 2, 30, 2, seed=1).hash)"
    )
    environment = os.environ | {"PYTHONHASHSEED": "3"}
    command = [sys.executable, "-c", code, str(dataset.root)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.stdout.strip() == first.hash, done.stderr


def test_hashes_are_those_of_earlier_versions(dataset):
    """Results that were published name their task list by its hash."""
    assert sample_tasks(dataset, (1, 2, 3), 2, 30, 2, seed=1).hash == "f53219a7d26e07e3"
    assert sample_tasks(dataset, (1, 2, 3), 1, 30, 2, sampling="classes").hash == "9a97a96e7b522505"


def test_tasks_are_saved_loaded_and_checked(dataset, tmp_path):
    drawn = sample_tasks(dataset, (1, 2), 1, 10, 2)
    path = tmp_path / "tasks.json"
    save_tasks(drawn, path)
    assert load_tasks(path, dataset) == drawn
    text = path.read_text()
    path.write_text(text.replace('"query": "01_0"', '"query": "01_1"', 1))
    with pytest.raises(RepriError, match="was changed after it was written"):
        load_tasks(path)
    content = json.loads(text.replace("01_", "91_"))
    del content["hash"]
    path.write_text(json.dumps(content))
    with pytest.raises(RepriError, match="wants the image '91_0', which pascal val does not have"):
        load_tasks(path, dataset)
    content["classes"]["1"] = "cat"
    path.write_text(json.dumps(content))
    with pytest.raises(RepriError, match="has the class 1 'cat', pascal has 'aeroplane'"):
        load_tasks(path, dataset)
    content["shots"] = 2
    path.write_text(json.dumps(content))
    with pytest.raises(RepriError, match="must hold tasks of 2 support images each"):
        load_tasks(path)


@pytest.mark.parametrize("text", ["[", "{}", '{"format": "repri-tasks-1"}', "3"])
def test_files_that_are_no_task_lists(tmp_path, text):
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(RepriError, match=r"x.json is not a task list written by repri"):
        load_tasks(tmp_path / "x.json")


def test_tasks_that_cannot_be_drawn(tmp_path):
    dataset = open_dataset("pascal", tiny_pascal(tmp_path, classes=range(1, 5)))
    with pytest.raises(RepriError, match=r"has only 3 images with at least 2048 pixels of 'bird', and 5 shots need 6"):
        sample_tasks(dataset, (3,), 5)
    with pytest.raises(RepriError, match=r"has only 1 image with at least 2050 pixels of 'bird'"):
        sample_tasks(dataset, (3,), 1, index=class_index(dataset, 2050))
    with pytest.raises(RepriError, match=r"has no image with .* of 'bottle'"):
        sample_tasks(dataset, dataset.novel(0), 1)
    with pytest.raises(RepriError, match="no class with the id 21"):
        sample_tasks(dataset, (21,), 1)
    with pytest.raises(RepriError, match="shots, tasks and runs must be at least 1, got 0, 1000 and 5"):
        sample_tasks(dataset, (1,), 0)
    with pytest.raises(RepriError, match="give at least one class to draw tasks of"):
        sample_tasks(dataset, (), 1)
    with pytest.raises(RepriError, match="no sampling named 'even'; known: queries, classes"):
        sample_tasks(dataset, (1,), 1, sampling="even")


@pytest.mark.parametrize("fold", range(4))
@pytest.mark.parametrize("shots", [1, 10])
def test_a_thousand_real_tasks_obey_the_rules(pascal, fold, shots):
    dataset = pascal["val"]
    index = class_index(dataset)
    lists = {id: set(names) for id, names in class_lists(dataset, index).items()}
    novel = dataset.novel(fold)
    queries = [s.id for s in dataset.samples if any(s.id in lists[id] for id in novel)]
    drawn = sample_tasks(dataset, novel, shots, 1000, 1, seed=fold, index=index).runs[0]
    for i, task in enumerate(drawn):
        assert task.class_id in novel
        assert task.query == queries[i % len(queries)]
        assert index.of(task.class_id)[dataset.position[task.query]] > 0
        assert len(set(task.support)) == shots
        assert task.query not in task.support
        assert lists[task.class_id].issuperset(task.support)
    assert {task.class_id for task in drawn} == set(novel)
    assert all(dataset.mask(task.query).max() > 0 for task in drawn[:20])
