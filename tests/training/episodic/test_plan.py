"""Whole runs of episodes: they learn, go on, choose a checkpoint, and leave a file that says how it was made."""

import csv
import signal

import pytest
import torch

from repri.methods import build_method
from repri.models import load_extractor
from repri.runtime.distributed import World
from repri.training import Stopped, prepare, train
from repri.training.episodic.validate import validate_tasks
from repri.training.estimate import measure
from tests.training.make import settings_from

from .make import LONGER


def rows_of(folder):
    return list(csv.DictReader((folder / "log.csv").read_text().splitlines()))


def test_the_loss_falls_and_the_base_classes_gain(make, learned):
    rows = rows_of(learned.folder)
    start = make(LONGER)
    before = validate_tasks(start.method, start.validation, World())
    assert float(rows[-1]["loss"]) < 0.7 * float(rows[0]["loss"])
    assert float(rows[-1]["base_miou"]) > before + 4
    assert [int(row["episodes"]) for row in rows] == [40, 80, 120]
    assert {row["episodes_hash"] for row in rows} == {learned.episodes.tasks.hash}


def test_the_file_says_how_it_was_made_and_refuses_another_extractor(learned):
    method = build_method(str(learned.target))
    made = method.training
    best = max(rows_of(learned.folder), key=lambda row: float(row["base_miou"]))
    assert (method.name, made.shots, made.episodes) == ("panet", 1, int(best["episodes"]))
    assert made.seen == method.seen == learned.classes
    assert made.identity == learned.extractor.identity
    assert made.more["base_miou"] == float(best["base_miou"])
    assert (made.more["novel"], made.more["selection"], made.more["budget"]) == ("ignore", "base", 120)
    assert "warning" not in made.more
    score = validate_tasks(method, learned.validation, World())
    assert abs(score - float(best["base_miou"])) < 1e-4
    with pytest.raises(ValueError, match="was trained on features of filters, and lowlevel here has other weights"):
        method.check(load_extractor("lowlevel"))


def test_a_stopped_run_goes_on_bit_for_bit(make, values, tmp_path, monkeypatch):
    """Stopped in mid-epoch, by the signal that a scheduler sends; the network has dropout."""

    def run(folder, resume=False, report=None):
        narrow = {"method.name": "pfenet", "method.settings": {"width": 8}, "output": str(tmp_path / folder)}
        return train(make(narrow), resume=resume, report=report)

    def interrupt(what, done, total, text):
        if what == "training" and done == 2:
            signal.raise_signal(signal.SIGTERM)

    run("whole")
    with pytest.raises(Stopped, match="stopped and saved after step 3 of 4"):
        run("halves", report=interrupt)
    run("halves", resume=True)
    first, second = (torch.load(tmp_path / name / "last.pt", weights_only=True) for name in ("whole", "halves"))
    assert first["progress"] == second["progress"]
    assert all(torch.equal(value, second["model"][key]) for key, value in first["model"].items())
    buffers = [
        [state["momentum_buffer"] for state in content["optimiser"]["state"].values()] for content in (first, second)
    ]
    assert all(torch.equal(a, b) for a, b in zip(*buffers, strict=True))
    one, two = ((tmp_path / name / "method.safetensors").read_bytes() for name in ("whole", "halves"))
    assert one == two


def test_other_episodes_do_not_resume(make, tmp_path):
    train(make({"optimiser.epochs": 1}))
    with pytest.raises(ValueError, match=r"was trained with episodes\.novel='ignore', not 'drop'"):
        train(make({"optimiser.epochs": 1, "episodes.novel": "drop"}), resume=True)


def test_the_price_of_looking_at_the_test_is_written_down(make):
    plan = make({"episodes.selection": "novel", "validation.every": 1})
    scores = iter([5.0, 4.0])
    assert train(plan, select=lambda network: next(scores)).best == 5.0
    made = build_method(str(plan.target)).training
    assert made.episodes == 8
    assert made.more["selection"] == "novel"
    assert "chosen by tasks of the novel classes" in made.more["warning"]


def test_a_method_that_names_base_classes_knows_their_number(make):
    ppnet = {"method.name": "ppnet", "method.settings": {"width": 16, "semantic": 0.1}}
    plan = make(ppnet)
    assert plan.method.options()["classes"] == 6
    (batch,) = plan.batches([[0]], 0)
    plan.updater(World(), "cpu").update(batch, 0)
    assert all(p.grad is not None and p.grad.any() for p in plan.module.parameters())


def test_the_last_epoch_may_be_kept(make):
    plan = make({"episodes.selection": "last"})
    train(plan)
    assert build_method(str(plan.target)).training.episodes == 16


def test_nothing_is_learned_while_it_is_measured(make):
    plan = make()
    before = [p.clone() for p in plan.module.parameters()]
    assert "a step takes" in measure(plan, World())
    assert all(torch.equal(a, b) for a, b in zip(before, plan.module.parameters(), strict=True))
    assert "2 steps of 4 episodes in an epoch, 4 in all" in plan.summary()


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"method.name": "prototype", "method.settings": {}}, "method: prototype has no network"),
        ({"method.name": "pannet"}, "no method named 'pannet', did you mean 'panet'"),
        ({"network.name": "pspnet-resnet50"}, "network: pspnet-resnet50 without weights is untrained"),
        ({"episodes.number": 3}, r"episodes\.number: 3 episodes do not fill a batch of 4"),
        ({"optimiser.warmup": 5}, "more than the run has"),
        ({"head.width": 8}, "head: panet is trained with episodes, which has no such settings"),
        ({"optimiser.accumulate": 2}, "episodes come one at a time"),
        ({"network.freeze": "layer3"}, "frozen as a whole"),
        ({"data.fold": None, "episodes.selection": "novel"}, "novel needs a fold"),
        ({"optimiser.schedule": "step"}, r"optimiser\.drops: the schedule step needs epochs"),
        ({"method.name": None, "method.settings": {}}, r"none is named: set method\.name"),
    ],
)
def test_mistakes_are_told_before_the_run(make, changes, sentence):
    with pytest.raises(ValueError, match=sentence):
        make(changes)


def test_processes_divide_a_batch(values):
    with pytest.raises(ValueError, match="A batch of 4 episodes cannot be divided among 3 processes"):
        prepare(settings_from(values), World(0, 3))
