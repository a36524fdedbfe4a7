"""Folds, lists, YAML descriptions, the class index and tasks."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from repri.data.loader import load

from repri.data.datasets.dataset import open_folder, read_list
from repri.data.datasets.folds import COCO, PASCAL, coco_novel, coco_to_pascal_novel, pascal_novel
from repri.data.datasets.index import class_index, class_lists
from repri.data.datasets.open import open_dataset, splits_of
from repri.data.tasks.tasks import load_tasks, sample_tasks, save_tasks

from .make import block, save_ids, save_picture, tiny_pascal


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("REPRI_CACHE", str(tmp_path / "cache"))


def names(ids, known):
    return {known[id - 1] for id in ids}


def test_folds_cover_every_class_once():
    assert sorted(id for fold in range(4) for id in pascal_novel(fold)) == list(range(1, 21))
    assert sorted(id for fold in range(4) for id in coco_novel(fold)) == list(range(1, 81))
    assert coco_novel(2) == tuple(range(3, 80, 4))
    with pytest.raises(ValueError, match="no fold 4"):
        pascal_novel(4)


def test_coco_to_pascal_by_name():
    """The lists of the paper's appendix; the authors' code tests car and cat in each other's place."""
    wanted = {
        0: "aeroplane boat chair diningtable dog person",
        1: "horse sofa bicycle bus",
        2: "bird car pottedplant sheep train tvmonitor",
        3: "bottle cat cow motorbike",
    }
    for fold, text in wanted.items():
        assert names(coco_to_pascal_novel(fold), PASCAL) == set(text.split())
        swapped = {{"car": "cat", "cat": "car"}.get(name, name) for name in text.split()}
        assert names(coco_to_pascal_novel(fold, "official"), PASCAL) == swapped
        assert coco_to_pascal_novel(fold, "paper") == coco_to_pascal_novel(fold)
    assert len(COCO) == 80


def test_a_known_layout_is_opened(tmp_path):
    dataset = open_dataset("pascal", tiny_pascal(tmp_path))
    assert len(dataset) == 60
    assert dataset.novel(1) == (6, 7, 8, 9, 10)
    assert set(dataset.base(1)) == set(range(1, 21)) - {6, 7, 8, 9, 10}
    image, mask = dataset.pair("07_2")
    assert image.shape == (64, 64, 3)
    assert (mask == 7).sum() == 2050
    assert dataset.id_of("cat") == 8
    with pytest.raises(ValueError, match="no class 'cats', did you mean 'cat'"):
        dataset.id_of("cats")


def test_wrong_roots_and_lists_are_named(tmp_path):
    with pytest.raises(ValueError, match=r"there is no folder .*nowhere: make it with `repri data get pascal"):
        open_dataset("pascal", tmp_path / "nowhere")
    with pytest.raises(ValueError, match=r"not laid out as pascal: .*val.txt is missing"):
        open_dataset("pascal", tmp_path)
    with pytest.raises(ValueError, match="needs --root"):
        open_dataset("coco")
    with pytest.raises(ValueError, match="no data set named 'passcal'"):
        open_dataset("passcal", tmp_path)
    with pytest.raises(ValueError, match="splits train and val, not 'test'"):
        open_dataset("pascal", tmp_path, "test")
    path = tmp_path / "list.txt"
    for text, message in (
        ("a.jpg a.png\nb.jpg\n", "line 2: expected `image mask`, found 1 words: 'b.jpg'"),
        ("a.jpg a.png c\n", "line 1: expected `image mask`, found 3"),
        ("\n", "is empty"),
        ("a.jpg a.png\na.jpg a.png\n", "two images that go by the name 'a'"),
    ):
        path.write_text(text)
        with pytest.raises(ValueError, match=message):
            read_list(path, tmp_path)
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match="not a text file"):
        read_list(path, tmp_path)


def test_names_that_repeat_are_told_apart(tmp_path):
    (tmp_path / "list.txt").write_text("a/1.jpg a/1.png\nb/1.jpg b/1.png\n")
    assert [sample.id for sample in read_list(tmp_path / "list.txt", tmp_path)] == ["a/1", "b/1"]


def described(tmp_path, **settings):
    import yaml

    path = tmp_path / "data.yaml"
    path.write_text(yaml.safe_dump({"name": "mine", "classes": ["cell", "wall"], **settings}))
    return path


def pairs(root, count=3, classes=(1, 2)):
    for n in range(count):
        save_picture(root / "images" / f"{n}.jpg", seed=n)
        save_ids(root / "masks" / f"{n}.png", block(40, 60, classes[n % len(classes)], 500))


def test_yaml_of_folders_lists_and_class_folders(tmp_path):
    pairs(tmp_path)
    (tmp_path / "list.txt").write_text("images/0.jpg masks/0.png\n")
    for name in ("cell", "wall"):
        for n in range(2):
            save_picture(tmp_path / "by_class" / name / f"{n}.jpg")
            save_ids(tmp_path / "by_class" / name / f"{n}.png", block(40, 60, 255, 300))
    splits = {
        "train": {"images": "images", "masks": "masks"},
        "val": "list.txt",
        "all": {"class_folders": "by_class"},
    }
    path = described(tmp_path, splits=splits, folds=2)
    assert set(splits_of(path)) == {"train", "val", "all"}
    assert len(open_dataset(path, split="train")) == 3
    assert len(open_dataset(path, split="val")) == 1
    folders = open_dataset(path, split="all")
    assert (folders.mask("wall/1") == 2).sum() == 300  # two-level masks, the class by the folder
    assert folders.folds == ((1,), (2,))
    assert class_lists(folders, class_index(folders), 100) == {1: ("cell/0", "cell/1"), 2: ("wall/0", "wall/1")}


def test_yaml_of_colours_and_named_folds(tmp_path):
    from PIL import Image

    save_picture(tmp_path / "images" / "0.png")
    rgb = np.zeros((40, 60, 3), np.uint8)
    rgb[:20] = (0, 255, 0)
    (tmp_path / "masks").mkdir()
    Image.fromarray(rgb).save(tmp_path / "masks" / "0.png")
    path = described(
        tmp_path,
        splits={"val": {"images": "images", "masks": "masks"}},
        masks="colour",
        colours={"wall": [0, 255, 0]},
        folds=[["wall"], ["cell"]],
    )
    dataset = open_dataset(path)
    assert np.unique(dataset.mask("0")).tolist() == [0, 2]
    assert dataset.folds == ((2,), (1,))


def test_yaml_of_coco_annotations_with_many_classes(tmp_path):
    """Masks are drawn when asked for; 255 is never a class, so the 255th has the id 256."""
    save_picture(tmp_path / "a.jpg")
    classes = [f"c{n}" for n in range(300)]
    content = {
        "images": [{"id": 7, "file_name": "a.jpg", "height": 40, "width": 60}],
        "annotations": [
            {"id": 1, "image_id": 7, "category_id": 254, "iscrowd": 0, "segmentation": [[0, 0, 30, 0, 30, 40, 0, 40]]}
        ],
        "categories": [{"id": n, "name": name} for n, name in enumerate(classes)],
    }
    (tmp_path / "a.json").write_text(json.dumps(content))
    path = described(
        tmp_path, classes=classes, splits={"val": {"coco": "a.json", "images": "."}}, folds={"interleaved": 3}
    )
    dataset = open_dataset(path)
    assert np.unique(dataset.mask("a")).tolist() == [0, 256]
    assert dataset.classes[256] == "c254"
    assert class_index(dataset).of(256).tolist() == [1200]
    assert len(dataset.folds) == 3
    assert dataset.pair("a")[0].shape == (40, 60, 3)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"split": {}}, "unknown setting 'split', did you mean 'splits'"),
        ({"splits": {"val": {"image": "x"}}}, "a split is a list file"),
        ({"splits": {"val": "l.txt"}, "folds": 5}, "5 folds cannot be made of 2 classes"),
        ({"splits": {"val": "l.txt"}, "folds": [["cel"]]}, "unknown class 'cel', did you mean 'cell'"),
        ({"splits": {"val": "l.txt"}, "classes": {255: "x"}}, "255 cannot be a class id"),
        ({"splits": {"val": "l.txt"}, "masks": "pink"}, "masks: input should be 'index'"),
        ({"splits": {"val": "l.txt"}, "root": "gone"}, "there is no folder .*gone"),
        ({"splits": {"test": "l.txt"}}, "has the splits test, not 'val'"),
        ({}, "the setting 'splits' is missing"),
    ],
)
def test_mistakes_in_yaml_are_named(tmp_path, settings, message):
    (tmp_path / "l.txt").write_text("a b\n")
    path = described(tmp_path, **settings)
    with pytest.raises(ValueError, match=message) as caught:
        open_dataset(path)
    assert "\n" not in str(caught.value)
    assert "data.yaml" in str(caught.value) or "x.txt" in str(caught.value)


def test_a_file_that_is_not_yaml(tmp_path):
    (tmp_path / "x.yaml").write_text("a: [")
    with pytest.raises(ValueError, match=r"x.yaml is not YAML"):
        open_dataset(tmp_path / "x.yaml")
    with pytest.raises(ValueError, match="cannot read"):
        open_dataset(tmp_path / "none.yaml")


def test_a_plain_folder(tmp_path):
    pairs(tmp_path, classes=(1, 4))
    dataset = open_folder(tmp_path)
    assert dataset.classes == {1: "class 1", 4: "class 4"}
    (tmp_path / "classes.txt").write_text("a\nb\nc\nd\n")
    assert open_folder(tmp_path).classes[4] == "d"
    (tmp_path / "masks" / "1.png").unlink()
    with pytest.raises(ValueError, match=r"1.jpg has no mask: .*1.png does not exist"):
        open_folder(tmp_path).mask("1")


def test_counts_are_exact_cached_and_renewed(tmp_path, monkeypatch):
    root = tiny_pascal(tmp_path / "data", per_class=1)
    dataset = open_dataset("pascal", root)
    index = class_index(dataset, workers=2)
    assert index.counts.tolist() == (np.eye(20, dtype=int) * 2048).tolist()
    with monkeypatch.context() as patch:
        patch.setattr("repri.data.datasets.index._count", lambda *_: pytest.fail("counted again"))
        assert (class_index(dataset).counts == index.counts).all()
    kept = next((tmp_path / "cache" / "index").iterdir())
    kept.write_bytes(b"damaged")
    assert (class_index(dataset).counts == index.counts).all()
    save_ids(root / "SegmentationClassAug" / "03_0.png", block(64, 64, 3, 77))
    assert class_index(dataset).of(3)[2] == 77


def test_an_unknown_class_id_is_named(tmp_path):
    root = tiny_pascal(tmp_path, per_class=1)
    save_ids(root / "SegmentationClassAug" / "03_0.png", block(64, 64, 33, 77))
    with pytest.raises(ValueError, match=r"03_0.png holds the class id 33, which pascal does not have"):
        class_index(open_dataset("pascal", root))


@pytest.mark.parametrize("sampling", ["queries", "classes"])
def test_tasks_obey_the_rules(tmp_path, sampling):
    dataset = open_dataset("pascal", tiny_pascal(tmp_path))
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
        share = np.bincount([task.class_id for run in drawn.runs for task in run], minlength=16)[11:16]
        assert (share > 10).all()


def test_the_filter_gates_queries_not_their_class(tmp_path):
    """A query with few pixels of a tested class, and enough of another, may be asked for either."""
    root = tiny_pascal(tmp_path, per_class=3)
    mixed = block(64, 64, 1, 2048)
    mixed[-1, :5] = 2
    save_ids(root / "SegmentationClassAug" / "01_0.png", mixed)
    dataset = open_dataset("pascal", root)
    tasks = [t for t in sample_tasks(dataset, (1, 2), 1, 600, 1).runs[0] if t.query == "01_0"]
    assert {t.class_id for t in tasks} == {1, 2}
    assert not any("01_0" in t.support for t in tasks)
    others = [t for t in sample_tasks(dataset, (1, 2), 1, 600, 1).runs[0] if t.class_id == 2]
    assert not any("01_0" in t.support for t in others)


def test_the_same_seed_draws_the_same_tasks(tmp_path):
    dataset = open_dataset("pascal", tiny_pascal(tmp_path))
    first = sample_tasks(dataset, (1, 2, 3), 2, 30, 2, seed=1)
    assert first == sample_tasks(dataset, (1, 2, 3), 2, 30, 2, seed=1)
    assert first.hash != sample_tasks(dataset, (1, 2, 3), 2, 30, 2, seed=2).hash
    fewer = sample_tasks(dataset, (1, 2, 3), 1, 30, 2, seed=1)
    pairs_of_runs = zip(fewer.runs[0], first.runs[0], strict=True)
    assert all((a.class_id, a.query, a.support) == (b.class_id, b.query, b.support[:1]) for a, b in pairs_of_runs)
    code = (
        "from repri.data.open import open_dataset; from repri.data.tasks import sample_tasks; import sys;"
        "print(sample_tasks(open_dataset('pascal', sys.argv[1]), (1, 2, 3), 2, 30, 2, seed=1).hash)"
    )
    environment = os.environ | {"PYTHONHASHSEED": "3"}
    command = [sys.executable, "-c", code, str(tmp_path)]
    assert subprocess.run(command, capture_output=True, text=True, env=environment).stdout.strip() == first.hash


def test_tasks_are_shipped_and_checked(tmp_path):
    dataset = open_dataset("pascal", tiny_pascal(tmp_path))
    drawn = sample_tasks(dataset, (1, 2), 1, 10, 2)
    path = tmp_path / "tasks.json"
    save_tasks(drawn, path)
    assert load_tasks(path, dataset) == drawn
    text = path.read_text()
    path.write_text(text.replace('"query": "01_0"', '"query": "01_1"', 1))
    with pytest.raises(ValueError, match="was changed after it was written"):
        load_tasks(path)
    path.write_text(text.replace("01_", "91_").replace(drawn.hash, ""))
    content = json.loads(path.read_text())
    del content["hash"]
    path.write_text(json.dumps(content))
    with pytest.raises(ValueError, match="wants the image '91_0'"):
        load_tasks(path, dataset)
    for bad in ("[", "{}", '{"format": "repri-tasks-1"}'):
        path.write_text(bad)
        with pytest.raises(ValueError, match="not a task list"):
            load_tasks(path)


def test_too_few_images_are_named(tmp_path):
    dataset = open_dataset("pascal", tiny_pascal(tmp_path, classes=range(1, 5)))
    with pytest.raises(ValueError, match=r"has only 3 images with at least 2048 pixels of 'bird', and 5 shots need 6"):
        sample_tasks(dataset, (3,), 5)
    with pytest.raises(ValueError, match=r"has no image with .* of 'bottle'"):
        sample_tasks(dataset, dataset.novel(0), 1)
    with pytest.raises(ValueError, match="no class with the id 21"):
        sample_tasks(dataset, (21,), 1)
    with pytest.raises(ValueError, match="at least 1"):
        sample_tasks(dataset, (1,), 0)


def test_the_loader_keeps_the_order(tmp_path):
    dataset = open_dataset("pascal", tiny_pascal(tmp_path, per_class=1))
    ids = [sample.id for sample in dataset.samples][::-1]
    for workers in (0, 1, 3):
        loaded = list(load(dataset, ids, "official", 65, workers=workers))
        assert [id for id, _ in loaded] == ids
        assert all(item.image.shape == (3, 65, 65) for _, item in loaded)
    save_ids(tmp_path / "SegmentationClassAug" / "02_0.png", np.zeros((64, 65)))
    with pytest.raises(ValueError, match=r"02_0.png is 65×64 and its image .*02_0.jpg is 64×64"):
        list(load(dataset, ids))
