"""Mistakes that only the data, the network or the processes reveal are reported before a run starts."""

import pytest

from repri.runtime.distributed import World
from repri.runtime.errors import RepriError
from repri.training import prepare, train
from repri.training.checks import check_batch, check_network, check_size
from repri.training.settings import NetworkSettings

MISTAKES = [
    ({"data.classes": ("stripes",)}, "'stripes' is tested by fold 0"),
    ({"data.classes": ("strips",)}, "no class 'strips', did you mean 'stripes'"),
    ({"data.classes": ()}, "0 classes to train on"),
    ({"data.min_pixels": 30000}, "no image with 30000 pixels"),
    ({"data.root": "/nowhere"}, "there is no folder /nowhere"),
    ({"optimiser.batch": 100}, "do not fill a batch of 100"),
    ({"optimiser.warmup": 13}, "optimiser.warmup takes 13 of 5 steps"),
    ({"loss.stride": 5}, "loss.stride must divide 64 here, got 5"),
    (
        {"protocol": "official", "data.classes": ("spots",), "loss.smoothing": 0.6},
        "loss.smoothing: official spreads it over 1 other classes",
    ),
    (
        {"network.name": "pspnet-resnet50", "network.freeze": "none", "network.weights": "nowhere.pth"},
        "no weights file",
    ),
    ({"head.name": "discriminant", "head.width": 4000}, "channels has 1 to"),
]


@pytest.mark.parametrize(("changes", "sentence"), MISTAKES, ids=[sentence for _, sentence in MISTAKES])
def test_mistakes_are_reported_before_training(make, changes, sentence):
    with pytest.raises(ValueError, match=sentence):
        prepare(make(changes))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"teacher.name": "nobody"}, "There is no extractor named 'nobody'"),
        ({"head.width": 64}, "gives 256 channels, and the"),
    ],
)
def test_mistakes_with_a_teacher(make, pupil, changes, sentence):
    with pytest.raises(ValueError, match=sentence):
        prepare(make(pupil | changes))


@pytest.mark.parametrize(
    ("network", "sentence"),
    [
        (NetworkSettings("compact-resnet50"), "no network named 'compact-resnet50'"),
        (NetworkSettings("pspnet-mobilenet_v2"), "no network named 'pspnet-mobilenet_v2'"),
        (NetworkSettings("resnet50", freeze="backbone"), "resnet50 without weights is untrained"),
        (NetworkSettings("filters", freeze="layer9"), "filters is frozen as a whole, not up to 'layer9'"),
    ],
)
def test_networks(network, sentence):
    with pytest.raises(RepriError, match=sentence):
        check_network(network)


@pytest.mark.parametrize(
    ("changes", "processes", "sentence"),
    [
        ({"optimiser.accumulate": 3}, 1, "cannot be divided among 1 processes in 3 parts"),
        ({"optimiser.accumulate": 4}, 1, "Each part of a batch needs two images"),
        ({}, 3, "A batch of 4 cannot be divided among 3 processes"),
        ({"optimiser.batch": 2, "loss.mixup": 0.4}, 2, "Each part of a batch needs two images"),
    ],
)
def test_batches(make, changes, processes, sentence):
    with pytest.raises(RepriError, match=sentence):
        check_batch(make(changes), World(0, processes))


def test_sizes_fit_the_network(make, trained):
    for size, changes, sentence in (
        (64, {"loss.thin": 20, "network.name": "hub:x", "network.freeze": "stage1"}, "there are 16 cells in a row"),
        (64, {"loss.stride": 3}, "must divide 64"),
    ):
        with pytest.raises(RepriError, match=sentence):
            check_size(make(changes), trained.plan.trainee, size)


def test_a_run_is_not_written_over(make, copied):
    with pytest.raises(RepriError, match="holds a run already"):
        train(prepare(make()))
    (copied / "last.pt").unlink()
    for resume in (False, True):
        with pytest.raises(RepriError, match=r"holds model\.safetensors already, and no last\.pt to go on from"):
            train(prepare(make()), resume=resume)


def test_there_must_be_something_to_resume(make, tmp_path):
    with pytest.raises(RepriError, match="nothing to resume"):
        train(prepare(make({"output": str(tmp_path / "other")})), resume=True)


def test_what_was_seen_is_handed_on(make, fitted):
    """A head on an extractor that has seen labels of its own."""
    other = {"network.name": fitted.model, "head.name": "discriminant", "head.width": 6}
    with pytest.raises(RepriError, match=r"Fold 1 tests .*, but the network, weights or teacher"):
        prepare(make(other | {"data.fold": 1}))
    plan = prepare(make(other | {"data.fold": None}))
    assert set(plan.trainee.seen) == set(plan.examples.dataset.classes.values())
