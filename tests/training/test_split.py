"""Classes, labels and images of a run."""

import pytest

from repri.data.datasets.open import open_dataset
from repri.data.datasets.scenes import make_dataset
from repri.runtime.errors import RepriError
from repri.training import prepare, train
from repri.training.settings import DataSettings
from repri.training.split import base_classes, base_labels, choose_images, evenly


def test_labels_of_the_base_classes(scenes):
    dataset = open_dataset(scenes, None, "train")
    base = base_classes(DataSettings(fold=1), dataset)
    assert set(base) == set(dataset.classes) - set(dataset.novel(1))
    table = base_labels(dataset, base, void_is_background=False)
    assert [table[id] for id in base] == list(range(1, len(base) + 1))
    assert all(table[id] == 255 for id in (*dataset.novel(1), 255))
    assert table[0] == 0
    assert base_labels(dataset, base, void_is_background=True)[255] == 0


def test_classes_may_be_named(scenes):
    dataset = open_dataset(scenes, None, "train")
    named = base_classes(DataSettings(fold=0, classes=("grain", "spots")), dataset)
    assert [dataset.classes[id] for id in named] == ["spots", "grain"]
    assert len(base_classes(DataSettings(fold=None), dataset)) == 8


def test_images_with_enough_pixels(values, scenes):
    dataset = open_dataset(scenes, None, "train")
    base = base_classes(DataSettings(fold=0), dataset)
    chosen = choose_images(dataset, base, 2048, None)
    assert 0 < len(chosen) < len(choose_images(dataset, None, 2048, None)) == 24
    assert choose_images(dataset, base, 2048, 5) == evenly(chosen, 5)
    assert evenly(list("abcdefgh"), 4) == ["a", "c", "e", "g"]


def test_an_unreadable_image_is_named_or_left_out(make, tmp_path):
    make_dataset(tmp_path / "data", train=10, val=4)
    broken = tmp_path / "data" / "train" / "images" / "train003.png"
    broken.write_bytes(broken.read_bytes()[:-200])  # its header is whole
    changes = {"data.name": str(tmp_path / "data" / "data.yaml")}
    plan = prepare(make(changes))
    with pytest.raises(ValueError, match=r"train003\.png"):
        plan.check_images()
    with pytest.raises(ValueError, match=r"train003\.png"):
        train(plan)
    with pytest.raises(RepriError, match=r"stopped at the image train003: .*train003\.png"):
        plan.examples.example(plan.examples.ids.index("train003"), 0)
    skipping = changes | {"data.skip_unreadable": True}
    plan = prepare(make(skipping))
    assert plan.skipped == ["train003"]
    assert "train003" not in plan.examples.ids
    plan.check_images()
    mask = tmp_path / "data" / "train" / "masks" / "train005.png"
    mask.write_bytes(b"not a mask")
    with pytest.raises(ValueError, match=r"train005\.png"):
        prepare(make(changes))
    assert prepare(make(skipping)).skipped == ["train003", "train005"]
