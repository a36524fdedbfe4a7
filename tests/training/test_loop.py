"""Whole runs on generated scenes: they learn, and choose the right epoch."""

import csv

import pytest
import torch

from repri.models import load_extractor
from repri.models.heads.files import load_head
from repri.runtime.errors import RepriError
from repri.training import prepare, train


def rows_of(folder):
    return list(csv.DictReader((folder / "log.csv").read_text().splitlines()))


def test_a_run_learns_and_leaves_its_files(make, tmp_path):
    changes = {"optimiser.epochs": 30, "validation.every": 30, "optimiser.lr": 0.2, "head.width": 16}
    train(prepare(make(changes)))
    folder = tmp_path / "run"
    names = {path.name for path in folder.iterdir()}
    assert {"config.yaml", "last.pt", "log.csv", "model.safetensors", "samples"} <= names
    rows = rows_of(folder)
    losses = [float(row["loss"]) for row in rows]
    assert len(rows) == 30
    assert losses[-1] < 0.8 * losses[0]
    assert float(rows[-1]["base_miou"]) > 15  # one of seven labels everywhere gives less


@pytest.mark.parametrize("changes", [{"protocol": "paper"}, {"loss.mixup": 0.4, "loss.stride": 2, "data.fold": None}])
def test_other_settings_run(make, changes, tmp_path):
    assert train(prepare(make(changes))).epoch == 1
    assert load_extractor(str(tmp_path / "run" / "model.safetensors")).rule.size == 64


def test_the_best_epoch_is_kept(make, tmp_path):
    """By a score that is handed in; under the protocol of the paper, the last."""
    scores = iter([1.0, 3.0, 2.0])
    states = []

    def select(trainee):
        states.append({key: value.clone() for key, value in trainee.head.state_dict().items()})
        return next(scores)

    assert train(prepare(make({"optimiser.epochs": 3})), select=select).best == 3.0
    head, _ = load_head(tmp_path / "run" / "model.safetensors")
    assert all(torch.equal(value, states[1][key]) for key, value in head.state_dict().items())
    plan = prepare(make({"optimiser.epochs": 2, "protocol": "paper", "output": str(tmp_path / "paper")}))
    train(plan)
    assert [float(row["selected_by"]) for row in rows_of(tmp_path / "paper")] == [0, 1]


def test_epochs_that_cannot_be_compared(make, monkeypatch, tmp_path):
    """Where there is no score, the last network is kept."""
    monkeypatch.setattr("repri.training.validate.mean_iou", lambda table: float("nan"))
    plan = prepare(make({"optimiser.epochs": 2}))
    assert train(plan).best == float("-inf")
    head, _ = load_head(tmp_path / "run" / "model.safetensors")
    assert all(torch.equal(value, plan.trainee.head.state_dict()[key]) for key, value in head.state_dict().items())


def test_another_frozen_network_does_not_resume(make, trained, finish, tmp_path):
    """Even if it has the same name as before."""
    other = finish("other", {"seed": 2})
    path = tmp_path / "network.safetensors"
    path.write_bytes((trained.folder / "model.safetensors").read_bytes())
    settings = make({"network.name": str(path)})
    train(prepare(settings))
    train(prepare(settings), resume=True)
    path.write_bytes((other.folder / "model.safetensors").read_bytes())
    with pytest.raises(RepriError, match="with another frozen network or teacher"):
        train(prepare(settings), resume=True)


def test_a_run_that_was_stopped_before_it_saved_begins_again(make, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.yaml").write_text("seed: 0\n")
    assert train(prepare(make()), resume=True).epoch == 1
